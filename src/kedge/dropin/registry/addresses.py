"""Addresses of registries. Each ends in `/v2/`, the version of the protocol."""

from __future__ import annotations

import os

from kedge import image_names
from kedge.dropin.net import http_addresses
from kedge.dropin.net.http_addresses import Address
from kedge.light.types import NamedTuple

HUB = "https://index.docker.io/v2/"
_HUB_HOSTS = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"})
_LOOPBACK = frozenset({"localhost", "::1"})
_VERSIONS = ("v1", "v2")
MIRRORS_VARIABLE = "PAI_IMAGE_MIRRORS"
MIRRORS_FILE = "image_mirrors"
_MAX_BYTES = 1 << 20


class Mirror(NamedTuple):
    """A mirror of `registry`, a host as in the names of images, None for Docker Hub."""

    registry: str | None
    address: str


def normal(text: str) -> str:
    """The address of a registry as users and Docker's configuration write it: https unless it has a scheme, `/v2/` in
    place of a version at its end. ValueError: it is not an address."""
    text = text.strip()
    address = http_addresses.parse(text if "://" in text else f"https://{text}")
    path = address.target.partition("?")[0].rstrip("/")
    head, _, last = path.rpartition("/")
    path = head.rstrip("/") if last in _VERSIONS else path
    return f"{address.scheme}://{address.authority}{path}/v2/"


def of_image(registry: str | None) -> tuple[str, ...]:
    """Where to ask for an image of a registry; the first that speaks the protocol counts. Docker and Podman, too, speak
    plain HTTP only to registries on the loopback interface."""
    if registry is None or _host(registry) in _HUB_HOSTS:
        return (HUB,)
    secure = normal(registry)
    return (f"http{secure.removeprefix('https')}", secure) if is_loopback(_host(registry)) else (secure,)


def of_credentials(uri: str, registry: str | None) -> tuple[str, ...]:
    """Where to ask for an image of `registry` with the credentials for `uri`, `auth.registryuri` of a job. Empty: they
    are for another registry. ValueError: it is not an address."""
    address = http_addresses.parse(normal(uri))
    if registry is None or _host(registry) in _HUB_HOSTS:
        return (HUB,) if address.host in _HUB_HOSTS else ()
    if not address.same_server(http_addresses.parse(f"{address.scheme}://{registry}")):
        return ()
    return (normal(uri),) if "://" in uri else of_image(registry)


def is_loopback(host: str) -> bool:
    return host in _LOOPBACK or (host.startswith("127.") and host.replace(".", "").isdigit())


def same_machine(first: Address, second: Address) -> bool:
    """Whether two servers are programs of one host; each name of the loopback interface means the same host."""
    return first.host == second.host or (is_loopback(first.host) and is_loopback(second.host))


def mirrors(environment: dict[str, str], folder: str) -> list[Mirror]:
    """The mirrors that a site has set: `PAI_IMAGE_MIRRORS`, or else the file image_mirrors in the configuration's
    folder. Items are `registry=address`, separated by blanks, commas or lines; `#` starts a comment.

    ValueError names the item that is wrong, OSError: the file cannot be read."""
    text = environment.get(MIRRORS_VARIABLE)
    if text is None:
        text = _content(f"{folder}/{MIRRORS_FILE}")
    lines = (line.partition("#")[0] for line in text.splitlines())
    return [_mirror(item) for line in lines for item in line.replace(",", " ").split()]


def _mirror(item: str) -> Mirror:
    registry, equals, address = item.partition("=")
    try:
        if not equals or not image_names.is_host(registry):
            raise ValueError("write it as registry=address, such as docker.io=https://mirror.example.com")
        return Mirror(None if registry in _HUB_HOSTS else registry, normal(address))
    except ValueError as error:
        raise ValueError(f"the mirror {item.rpartition('@')[2]!a} is not valid: {error}") from None


def _content(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return ""
    with open(fd, "rb") as file:
        return file.read(_MAX_BYTES).decode("utf-8", "replace")


def _host(registry: str) -> str:
    return http_addresses.parse(f"https://{registry}").host
