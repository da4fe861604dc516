"""Looks up digests of container images in their registries, without credentials (OCI distribution specification)."""

from __future__ import annotations

import json

import httpx

from kedge import http_challenges, image_names
from kedge.deadlines import within
from kedge.late_patterns import late_pattern
from kedge.resolve.lock_file import Pin
from kedge.resolve.sources.base import MAX_DOCUMENT_BYTES
from kedge.resolve.sources.urls import check, plain

_HUB = "registry-1.docker.io"
_MANIFESTS = ", ".join((
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
))  # fmt: skip
_DIGEST = "Docker-Content-Digest"
_VALUE = late_pattern(r"[a-z0-9]+(?:[+._-][a-z0-9]+)*:[a-zA-Z0-9=_-]+")  # from the OCI image specification
_TOTAL_SEC = 20.0
_TIMEOUT = httpx.Timeout(10.0, connect=5.0)


def digest(image: str) -> Pin:
    """The digest of an image's manifest, or of its own name if it has one. Any failure gives an unlocked Pin."""
    try:
        name = image_names.parse(image)
    except ValueError as error:
        return Pin(unlocked=f"this is not an image name: {error}")
    if name.digest:
        return Pin(name.digest)
    host = name.registry or _HUB
    url = f"{_scheme(host)}://{host}/v2/{name.repository}/manifests/{name.manifest}"
    try:
        return within(_TOTAL_SEC, lambda: _look_up(url))
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OverflowError, RecursionError, TimeoutError) as error:
        return Pin(unlocked=f"the registry {host} cannot be reached: {plain(str(error)) or type(error).__name__}")


def _scheme(host: str) -> str:
    return "http" if host.partition(":")[0] in ("localhost", "127.0.0.1") else "https"


def _look_up(url: str) -> Pin:
    checked = check(httpx.URL(url))
    with httpx.Client(timeout=_TIMEOUT, follow_redirects=False) as client:
        answer = client.head(checked, headers={"Accept": _MANIFESTS})
        if answer.status_code == 401:
            answer = client.head(checked, headers={"Accept": _MANIFESTS, **_token(client, answer)})
    value = answer.headers.get(_DIGEST)
    if answer.status_code != 200 or not value:
        return Pin(unlocked=f"the registry answers {answer.status_code} {plain(answer.reason_phrase)}".rstrip())
    if not _VALUE.fullmatch(value):
        return Pin(unlocked=f"the registry answers with '{plain(value)}', which is not a digest")
    return Pin(value)


def _token(client: httpx.Client, challenge: httpx.Response) -> dict[str, str]:
    challenges = http_challenges.parse(challenge.headers.get_list("WWW-Authenticate"))
    fields = next((each.parameters for each in challenges if each.scheme == "bearer"), {})
    if "realm" not in fields:
        return {}
    realm = check(httpx.URL(fields.pop("realm")))
    with client.stream("GET", realm, params=fields, headers={"Accept-Encoding": "identity"}) as answer:
        data = json.loads(_body(answer)) if answer.status_code == 200 else {}
    token = (data.get("token") or data.get("access_token")) if isinstance(data, dict) else None
    return {"Authorization": f"Bearer {token}"} if token else {}


def _body(answer: httpx.Response) -> bytes:
    body = b""
    for part in answer.iter_raw():
        body += part
        if len(body) > MAX_DOCUMENT_BYTES:
            raise ValueError(f"its answer is larger than {MAX_DOCUMENT_BYTES >> 20} MiB")
    return body
