"""Finds the address of the container engine of this machine."""

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
    """The address named by the environment or docker's settings. CannotRun if it is on another machine or missing."""
    for variable in VARIABLES:
        if address := environment.get(variable):
            return _local(address, variable)
    return _of_context(environment)


def _of_context(environment: Mapping[str, str]) -> str | None:
    """The address of docker's current context; see `docker context`."""
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
        raise CannotRun(f"{source} is {address}: write the socket as unix://{address}")
    scheme, _, path = address.partition("://")
    if scheme != "unix":
        raise CannotRun(
            f"{source} is {address}: the container engine must run on this machine (unix://…), because tasks share "
            f"folders with kedge. Run kedge on that machine, or unset {source}."
        )
    if not os.path.exists(path):
        raise CannotRun(f"{source} is {address}, but that socket does not exist: start the engine, or unset {source}")
    return address


def sockets(environment: Mapping[str, str]) -> Iterator[str]:
    """The usual paths of sockets, whether or not they exist."""
    own = xdg.named(xdg.RUNTIME, environment) or f"/run/user/{os.getuid()}"
    yield from ("/var/run/docker.sock", f"{own}/docker.sock", f"{own}/podman/podman.sock", "/run/podman/podman.sock")


def usable(environment: Mapping[str, str]) -> str | None:
    """The address of the first of these sockets that this user may use; None if there is none."""
    for path in sockets(environment):
        if Path(path).is_socket() and os.access(path, os.R_OK | os.W_OK):
            return f"unix://{path}"
    return None


def nothing(environment: Mapping[str, str]) -> CannotRun:
    """The error if there is no usable engine."""
    paths = list(sockets(environment))
    if denied := [path for path in paths if Path(path).is_socket()]:
        return CannotRun(f"you may not use {', '.join(denied)} (are you in the group docker?); {_INSTALL}")
    looked = f"looked for {', '.join(VARIABLES)}, {', '.join(paths)} and the program podman"
    return CannotRun(f"no container engine was found: {looked}; {_INSTALL}")
