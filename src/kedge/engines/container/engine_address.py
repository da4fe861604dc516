"""Where the container engine of this machine is."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from kedge import xdg
from kedge.errors import CannotRun

VARIABLES = ("DOCKER_HOST", "CONTAINER_HOST")
_INSTALL = (
    "install Podman (Debian, Ubuntu: apt-get install podman; Fedora: dnf install podman) or Docker "
    "(https://docs.docker.com/engine/install), or set DOCKER_HOST"
)


def named(environment: Mapping[str, str]) -> str | None:
    """The address that the environment, or docker's settings, name. CannotRun if it leads elsewhere, or nowhere."""
    for variable in VARIABLES:
        if address := environment.get(variable):
            return _local(address, variable)
    return _of_context(environment)


def _of_context(environment: Mapping[str, str]) -> str | None:
    """What the chosen context of the program docker says; see `docker context`."""
    folder = Path(environment.get("DOCKER_CONFIG") or Path(environment.get("HOME", "/"), ".docker"))
    try:
        name = environment.get("DOCKER_CONTEXT") or json.loads((folder / "config.json").read_bytes())["currentContext"]
        if name == "default":
            return None
        meta = folder / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest() / "meta.json"
        address: str = json.loads(meta.read_bytes())["Endpoints"]["docker"]["Host"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return _local(address, f"the docker context {name}")


def _local(address: str, source: str) -> str:
    if address.startswith("/"):
        raise CannotRun(f"{source} is {address}: a socket is written as unix://{address}")
    scheme, _, path = address.partition("://")
    if scheme != "unix":
        raise CannotRun(
            f"{source} is {address}: the container engine must run on this machine (unix://…), because tasks share "
            "their folders with kedge. Run kedge on that machine, or unset it."
        )
    if not os.path.exists(path):
        raise CannotRun(f"{source} is {address}, and there is no such socket: start that engine, or unset {source}")
    return address


def sockets(environment: Mapping[str, str]) -> Iterator[str]:
    """The usual places of sockets, whether anything is there or not."""
    own = xdg.named(xdg.RUNTIME, environment) or f"/run/user/{os.getuid()}"
    yield from ("/var/run/docker.sock", f"{own}/docker.sock", f"{own}/podman/podman.sock", "/run/podman/podman.sock")


def usable(environment: Mapping[str, str]) -> str | None:
    """The first of them that this user may use."""
    for path in sockets(environment):
        if Path(path).is_socket() and os.access(path, os.R_OK | os.W_OK):
            return f"unix://{path}"
    return None


def nothing(environment: Mapping[str, str]) -> CannotRun:
    """What to say when there is none."""
    places = list(sockets(environment))
    closed = [path for path in places if Path(path).is_socket()]
    what = f"you may not use {', '.join(closed)} (are you in the group docker?)" if closed else "no container engine"
    looked = f"looked for {', '.join(VARIABLES)}, {', '.join(places)} and the program podman"
    return CannotRun(f"{what} was found: {looked}; {_INSTALL}" if not closed else f"{what}; {_INSTALL}")
