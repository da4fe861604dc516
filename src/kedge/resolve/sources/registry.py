"""Digests of container images, asked of their registries without credentials (OCI distribution specification)."""

from __future__ import annotations

import re

import httpx

from kedge.resolve.lock import Pin

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
    try:
        with httpx.Client(timeout=_PATIENCE, follow_redirects=False) as client:
            return _ask(client, f"{_scheme(host)}://{host}/v2/{repository}/manifests/{found['tag'] or 'latest'}")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return Pin(unlocked=f"the registry {host} cannot be asked: {error or type(error).__name__}")


def place(name: str) -> tuple[str, str]:
    """Registry and repository. What is before the first `/` is a registry only if it looks like a host."""
    first, _, rest = name.partition("/")
    if rest and ("." in first or ":" in first or first == "localhost"):
        return first, rest
    return _HUB, name if rest else f"library/{name}"


def _scheme(host: str) -> str:
    return "http" if host.partition(":")[0] in ("localhost", "127.0.0.1") else "https"


def _ask(client: httpx.Client, url: str) -> Pin:
    answer = client.head(url, headers={"Accept": _MANIFESTS})
    if answer.status_code == 401:
        answer = client.head(url, headers={"Accept": _MANIFESTS, **_token(client, answer)})
    value = answer.headers.get(_DIGEST)
    if answer.status_code != 200 or not value:
        return Pin(unlocked=f"the registry answers {answer.status_code} {answer.reason_phrase}".rstrip())
    return Pin(value)


def _token(client: httpx.Client, challenge: httpx.Response) -> dict[str, str]:
    scheme, _, rest = challenge.headers.get("WWW-Authenticate", "").partition(" ")
    fields = dict(_FIELD.findall(rest))
    if scheme.lower() != "bearer" or "realm" not in fields:
        return {}
    answer = client.get(fields.pop("realm"), params=fields)
    said = answer.json() if answer.status_code == 200 else {}
    token = (said.get("token") or said.get("access_token")) if isinstance(said, dict) else None
    return {"Authorization": f"Bearer {token}"} if token else {}
