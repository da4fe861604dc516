"""Digests of container images, asked of their registries without credentials (OCI distribution specification)."""

from __future__ import annotations

import json
import re

import httpx

from kedge.deadlines import within
from kedge.resolve.lock_file import Pin
from kedge.resolve.sources.base import LARGEST_DOCUMENT
from kedge.resolve.sources.urls import check, plain

_HUB = "registry-1.docker.io"
_MANIFESTS = ", ".join((
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
))  # fmt: skip
_IMAGE = re.compile(r"(?P<name>[a-z0-9._/-]+(?::\d+/[a-z0-9._/-]+)?)(?::(?P<tag>\w[\w.-]{0,127}))?")
_FIELD = re.compile(r'(\w+)="([^"]*)"')
_DIGEST = "Docker-Content-Digest"
_VALUE = re.compile(r"[a-z0-9]+(?:[+._-][a-z0-9]+)*:[a-zA-Z0-9=_-]+")  # of the OCI image specification
_TOTAL_SEC = 20.0
_PATIENCE = httpx.Timeout(10.0, connect=5.0)


def digest(image: str) -> Pin:
    """The digest of an image's manifest. One that has a digest in its name keeps it; every doubt is unlocked."""
    name, _, known = image.partition("@")
    if known:
        return Pin(known)
    found = _IMAGE.fullmatch(name)
    if not found:
        return Pin(unlocked="this is no name of an image")
    host, repository = place(found["name"])
    url = f"{_scheme(host)}://{host}/v2/{repository}/manifests/{found['tag'] or 'latest'}"
    try:
        return within(_TOTAL_SEC, lambda: _asked(url))
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OverflowError, RecursionError, TimeoutError) as error:
        return Pin(unlocked=f"the registry {host} cannot be asked: {plain(str(error)) or type(error).__name__}")


def place(name: str) -> tuple[str, str]:
    """Registry and repository. What is before the first `/` is a registry only if it looks like a host."""
    first, _, rest = name.partition("/")
    if rest and ("." in first or ":" in first or first == "localhost"):
        return first, rest
    return _HUB, name if rest else f"library/{name}"


def _scheme(host: str) -> str:
    return "http" if host.partition(":")[0] in ("localhost", "127.0.0.1") else "https"


def _asked(url: str) -> Pin:
    checked = check(httpx.URL(url))
    with httpx.Client(timeout=_PATIENCE, follow_redirects=False) as client:
        answer = client.head(checked, headers={"Accept": _MANIFESTS})
        if answer.status_code == 401:
            answer = client.head(checked, headers={"Accept": _MANIFESTS, **_token(client, answer)})
    value = answer.headers.get(_DIGEST)
    if answer.status_code != 200 or not value:
        return Pin(unlocked=f"the registry answers {answer.status_code} {plain(answer.reason_phrase)}".rstrip())
    if not _VALUE.fullmatch(value):
        return Pin(unlocked=f"the registry gives no digest, but '{plain(value)}'")
    return Pin(value)


def _token(client: httpx.Client, challenge: httpx.Response) -> dict[str, str]:
    scheme, _, rest = challenge.headers.get("WWW-Authenticate", "").partition(" ")
    fields = dict(_FIELD.findall(rest))
    if scheme.lower() != "bearer" or "realm" not in fields:
        return {}
    realm = check(httpx.URL(fields.pop("realm")))
    with client.stream("GET", realm, params=fields, headers={"Accept-Encoding": "identity"}) as answer:
        said = json.loads(_body(answer)) if answer.status_code == 200 else {}
    token = (said.get("token") or said.get("access_token")) if isinstance(said, dict) else None
    return {"Authorization": f"Bearer {token}"} if token else {}


def _body(answer: httpx.Response) -> bytes:
    body = b""
    for part in answer.iter_raw():
        body += part
        if len(body) > LARGEST_DOCUMENT:
            raise ValueError(f"its answer has more than {LARGEST_DOCUMENT >> 20} MiB")
    return body
