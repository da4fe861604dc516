"""Talks to Docker or Podman through Docker's API. The only module that uses the `docker` package; it turns the
package's errors into ours."""

from __future__ import annotations

import base64
import json
import os
import socket
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

import docker
import docker.errors
import requests
import urllib3
from docker.auth import encode_header, get_config_header, resolve_repository_name
from docker.constants import DEFAULT_DOCKER_API_VERSION
from docker.transport import UnixHTTPAdapter
from docker.types import CancellableStream, DeviceRequest, IPAMConfig, IPAMPool, LogConfig, Ulimit
from docker.utils import parse_repository_tag
from docker.utils.socket import frames_iter

from kedge.engines.container.api.engine_answers import (
    ContainerState,
    EngineGone,
    EngineRefused,
    Facts,
    LocalImage,
    RunningContainer,
    Seen,
)
from kedge.engines.container.rendering.container_spec import LOG_LIMIT, TMPFS_OPTIONS, ContainerSpec

TIMEOUT_SEC = 60  # for one answer; starting a container on a busy machine takes seconds
QUIET_SEC = 30  # without an event; then the caller asks whether one was missed
PULL_QUIET_SEC = 900  # of a pull; callers give up much earlier
_POOL = 16
_NO_DETACH = "ctrl-_,ctrl-_,ctrl-_"  # the default would swallow Ctrl-P
_REMOVED = "image not known"  # Podman looks at all images for the parent of one, while others may be removed
_TRIES = 5
_LOOK_SEC = 5  # for optional facts
_MOST_CHANGES = 8 << 20  # bytes of an answer
_DELETED = 2  # the kind of a change
_TYPE_SHIFT = 19  # in Go's file modes, the bits from here up are zero only for regular files
_PODMAN_WITH_GPUS = (5, 4)  # older versions ignore every request for GPUs in Docker's API
_NOT_STARTED = ("created", "configured", "initialized")  # the last two are Podman's
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class JsonLines:
    """The JSON lines of an answer as they arrive, until none arrives for the timeout of the request. Any thread may
    `close` it."""

    def __init__(self, address: str, response: Any) -> None:
        self._address, self._response = address, response
        self._stream = CancellableStream(response.iter_lines(), response)

    def __iter__(self) -> Generator[dict[str, Any], None, None]:
        with _errors(self._address), suppress(_Quiet), closing(self._response):
            while True:
                with _silence():
                    line = next(self._stream, None)
                if line is None:
                    return
                yield json.loads(line)

    def close(self) -> None:
        with suppress(OSError, AttributeError):  # the package looks for the socket below what it was given
            self._stream.close()


class Deaths:
    """The names of containers as they end, until none has ended for QUIET_SEC. Any thread may `close` it."""

    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines
        self.close = lines.close

    def __iter__(self) -> Iterator[str]:
        return (line["Actor"]["Attributes"]["name"] for line in self._lines)


class ContainerProgram:
    """A program that was started in a container."""

    def __init__(self, address: str, api: Any, identity: str, connection: Any, terminal: bool) -> None:
        self._address, self._api, self._id, self._terminal = address, api, identity, terminal
        self._connection = connection
        self._socket: socket.socket = getattr(connection, "_sock", connection)
        self._socket.settimeout(None)

    def output(self) -> Iterator[tuple[int, bytes]]:
        """Its output until it ends, each piece with 1 for stdout or 2 for stderr."""
        yield from frames_iter(self._connection, self._terminal)

    def write(self, data: bytes) -> None:
        """Send input. OSError: it has ended."""
        self._socket.sendall(data)

    def close_input(self) -> None:
        """End its input. OSError: it has ended."""
        self._socket.shutdown(socket.SHUT_WR)

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of its terminal, if it still runs."""
        with suppress(EngineRefused), _errors(self._address):
            self._api.exec_resize(self._id, height=rows, width=columns)

    def signal(self, number: int) -> None:
        """Send it a signal. Does nothing if it has ended, or runs as a user whose processes this one may not signal."""
        with _errors(self._address):
            found = self._api.exec_inspect(self._id)
        if found["Running"] and found["Pid"]:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(found["Pid"], number)

    def exit_code(self) -> int | None:
        """Its exit code; None if it was ended with the container."""
        with _errors(self._address, 404, 409, 500):
            code: int | None = self._api.exec_inspect(self._id)["ExitCode"]
            return code
        return None


class _SharedConnections(UnixHTTPAdapter):  # type: ignore[misc]
    """Uses the same few connections for all requests. The package itself makes a new one for almost every request,
    because it keeps them by the request's full address; that costs a fifth of a short request."""

    def get_connection(self, url: Any, proxies: Any = None) -> Any:
        return super().get_connection(self.socket_path)


class Client:
    """A connection to the engine at `address`. Every method raises EngineGone or Refused."""

    def __init__(self, address: str, timeout_sec: int = TIMEOUT_SEC) -> None:
        self.address = address
        with _errors(address):
            api: Any = docker.APIClient(address, DEFAULT_DOCKER_API_VERSION, timeout_sec, max_pool_size=_POOL)
            api.trust_env = False  # no proxies and no .netrc: the engine is on this machine
            path = api.get_adapter(api.base_url).socket_path
            api.mount(api.base_url, _SharedConnections(path, timeout_sec, max_pool_size=_POOL))
            # As `docker` does. The package's own "auto" asks for /version, for which Podman runs dpkg-query or rpm.
            answer = api.get(f"{api.base_url}/_ping")
            api._raise_for_status(answer)
        self.podman: str = answer.headers.get("Libpod-API-Version", "")  # the version of Podman; empty for Docker
        api._version = answer.headers.get("Api-Version", api.api_version)
        self._api = api

    def close(self) -> None:
        self._api.close()

    def facts(self) -> Facts:
        with _errors(self.address):
            info = self._api.info()
        podman, version = bool(self.podman), info["ServerVersion"]
        options = info.get("SecurityOptions") or []
        rootless = "name=rootless" in options or bool(info.get("Rootless"))
        can_limit = not (rootless and info.get("CgroupVersion") == "1")  # the engine claims that it can, but it cannot
        return Facts(
            name=f"{'Podman' if podman else 'Docker'} {version}",
            architecture=_ARCHITECTURES.get(info["Architecture"], info["Architecture"]),
            cpus=info["NCPU"],
            memory=info["MemTotal"],
            limits_cpu=can_limit and bool(info.get("CpuCfsQuota")),
            limits_memory=can_limit and bool(info.get("MemoryLimit")),
            rootless=rootless,
            gpus=not podman or _version(version) >= _PODMAN_WITH_GPUS,
            cdi=podman or bool(info.get("CDISpecDirs")),
            limits_pids=can_limit and bool(info.get("PidsLimit")),
            selinux=any("selinux" in option for option in options),
        )

    def image(self, name: str) -> LocalImage | None:
        """An image on this machine; None if it is not there."""
        found = None
        with _errors(self.address, 404):
            found = _despite_removals(lambda: self._api.inspect_image(name))
        if found is None:
            return None
        config = found.get("Config") or {}
        environment = dict(entry.partition("=")[::2] for entry in config.get("Env") or [])
        workdir, user = config.get("WorkingDir") or "/", config.get("User") or ""
        digests = tuple(found.get("RepoDigests") or ())
        return LocalImage(found["Id"], found["Architecture"], user, workdir, environment, digests)

    def images(self) -> list[str]:
        """The IDs of all images on this machine."""
        with _errors(self.address):
            return [found["Id"] for found in _despite_removals(self._api.images)]

    def pull(self, name: str, auth: Mapping[str, str] | None) -> JsonLines:
        """Start to pull an image. The lines show its progress; a line with an `error` is the last."""
        api = self._api
        repository, tag = parse_repository_tag(name)
        with _errors(self.address):
            header = encode_header(auth) if auth else get_config_header(api, resolve_repository_name(repository)[0])
            # Not the package's own `pull`, which waits forever and cannot be interrupted.
            response = api.post(
                f"{api.base_url}/v{api.api_version}/images/create",
                params={"fromImage": repository, "tag": tag or "latest"},
                headers={"X-Registry-Auth": header} if header else {},
                stream=True,
                timeout=PULL_QUIET_SEC,
            )
            api._raise_for_status(response)
            return JsonLines(self.address, response)

    def create(self, spec: ContainerSpec) -> None:
        """Make a container. Does nothing if one of that name exists."""
        api = self._api
        with _errors(self.address):
            host = api.create_host_config(
                binds=[f"{bind.source}:{bind.target}:{spec.options(bind)}" for bind in spec.binds],
                tmpfs=dict.fromkeys(spec.tmpfs, TMPFS_OPTIONS),
                devices=[f"{device}:{device}:rwm" for device in spec.devices],
                extra_hosts=dict(spec.hosts or {}),
                network_mode=spec.network,
                log_config=LogConfig(type="json-file", config={"max-size": LOG_LIMIT}),
                security_opt=list(spec.security),
                cap_drop=list(spec.dropped),
                cap_add=list(spec.added),
                pids_limit=spec.pids,
                **_limits(spec),
            )
            host |= {"UsernsMode": spec.userns} if spec.userns else {}  # the package accepts only Docker's modes
            networks = None
            if spec.address:
                endpoint = api.create_endpoint_config(
                    ipv4_address=spec.address, mac_address=_hardware_address(spec.address), aliases=[spec.hostname]
                )
                networks = api.create_networking_config({spec.network: endpoint})
            self._create_once(
                spec.image,
                entrypoint=list(spec.entrypoint),
                name=spec.name,
                user=spec.user,
                hostname=None if spec.network == "host" else spec.hostname,
                environment=dict(spec.environment),
                labels=dict(spec.labels),
                host_config=host,
                networking_config=networks,
            )

    def _create_once(self, *args: Any, **options: Any) -> None:
        """Names are unique to an attempt: an existing container was made by a call whose answer was lost."""
        try:
            self._api.create_container(*args, **options)
        except docker.errors.APIError as error:
            if "container name" not in str(error.explanation):
                raise

    def start(self, name: str) -> None:
        with _errors(self.address):
            self._api.start(name)

    def start_if_new(self, name: str) -> None:
        """Start a container unless it was started by a call whose answer was lost: a task must not run twice."""
        with _errors(self.address):
            state = self._api.inspect_container(name)["State"]["Status"]
        if state in _NOT_STARTED:
            self.start(name)

    def signal(self, name: str, number: int) -> bool:
        """Signal the first process of a container, if it is running. A paused container is resumed first, since the
        signal would have no effect (and Podman reports no error). Returns whether it was paused."""
        was_paused = False
        with _errors(self.address, 404, 409, 500):
            self._api.unpause(name)
            was_paused = True
        with _errors(self.address, 404, 409, 500):  # Podman answers 500 or 409 for an ended container
            self._api.kill(name, number)
        return was_paused

    def process(self, name: str) -> RunningContainer:
        """The first process of a container; its pid is 0 if the container is not running."""
        with _errors(self.address):
            found = self._api.inspect_container(name)
        layer = ((found.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir")
        return RunningContainer(found["Id"], found["State"]["Pid"], layer)

    def entrypoint(self, name: str) -> list[str]:
        """The command that a container was made to run."""
        with _errors(self.address):
            return list(self._api.inspect_container(name)["Config"]["Entrypoint"])

    def exec(self, name: str, argv: Sequence[str], *, stdin: bool, terminal: bool) -> ContainerProgram:
        """Start a program in a running container, as its user."""
        api, variables = self._api, {"TERM": os.environ.get("TERM", "xterm")} if terminal else {}
        with _errors(self.address):
            made = api.exec_create(
                name, list(argv), stdin=stdin, tty=terminal, environment=variables, detach_keys=_NO_DETACH
            )
            connection = api.exec_start(made["Id"], tty=terminal, socket=True)
        return ContainerProgram(self.address, api, made["Id"], connection, terminal)

    def changes(self, name: str) -> list[str]:
        """The paths that a container has made or changed; only the first if there are very many."""
        api = self._api
        with _errors(self.address):
            response = api._get(api._url("/containers/{0}/changes", name), stream=True, timeout=_LOOK_SEC)
            api._raise_for_status(response)
            with response:
                text = response.raw.read(_MOST_CHANGES, decode_content=True)
        if len(text) == _MOST_CHANGES:
            text = text[: text.rindex(b"}") + 1] + b"]"
        return [change["Path"] for change in json.loads(text) or [] if change["Kind"] != _DELETED]

    def file_size(self, name: str, path: str) -> int | None:
        """The size of a regular file in a container in bytes; None for anything else."""
        api = self._api
        with _errors(self.address):
            url = api._url("/containers/{0}/archive", name)
            answer = api.head(url, params={"path": path}, timeout=_LOOK_SEC)
            api._raise_for_status(answer)
        found = json.loads(base64.b64decode(answer.headers["X-Docker-Container-Path-Stat"]))
        return found["size"] if found["mode"] >> _TYPE_SHIFT == 0 else None

    def remove(self, name: str) -> None:
        """Remove a container, even if it is running. Does nothing if it does not exist."""
        with _errors(self.address, 404):
            self._api.remove_container(name, force=True, v=True)

    def state(self, name: str) -> ContainerState | None:
        """How a container ended; None if it has been removed."""
        try:
            with _errors(self.address):
                found = self._api.inspect_container(name)["State"]
                log = self._api.logs(name, tail=50).decode(errors="replace")
        except EngineRefused:  # it does not exist, or is being removed
            return None
        return ContainerState(found["ExitCode"], bool(found.get("OOMKilled")), found.get("Error") or "", log.strip())

    def containers(self, label: str) -> list[Seen]:
        """Every container with this label, including ended ones."""
        with _errors(self.address):
            found = self._api.containers(all=True, filters={"label": label})
        return [
            Seen(
                c["Names"][0].lstrip("/"),
                c["State"] in ("running", "paused"),
                c["State"] in ("exited", "dead", "stopped"),
            )
            for c in found
        ]

    def labels(self, label: str) -> list[str]:
        """The values of this label on running containers."""
        with _errors(self.address):
            return [found["Labels"][label] for found in self._api.containers(filters={"label": label})]

    def deaths(self, label: str, since: float) -> Deaths | None:
        """The containers with this label that end after a time, in seconds since 1970. None if there are none yet."""
        api = self._api
        filters = json.dumps({"label": [label], "event": ["die", "died"]})  # Podman has its own word
        url = f"{api.base_url}/v{api.api_version}/events"
        with _errors(self.address), suppress(_Quiet), _silence():
            # Not the package's own `events`, which waits forever.
            response = api.get(url, params={"since": int(since), "filters": filters}, stream=True, timeout=QUIET_SEC)
            api._raise_for_status(response)
            return Deaths(JsonLines(self.address, response))
        return None

    def create_network(self, name: str, subnet: str, gateway: str, labels: Mapping[str, str]) -> None:
        pool = IPAMConfig(pool_configs=[IPAMPool(subnet=subnet, gateway=gateway)])
        with _errors(self.address):
            self._api.create_network(name, driver="bridge", ipam=pool, labels=dict(labels))

    def networks(self, label: str) -> list[str]:
        """The names of the networks with this label."""
        with _errors(self.address):
            return [network["Name"] for network in self._api.networks(filters={"label": label})]

    def create_volume(self, name: str, options: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """Make a volume of the engine's own driver, which mounts it when a container starts."""
        with _errors(self.address):
            self._api.create_volume(name, driver="local", driver_opts=dict(options), labels=dict(labels))

    def volumes(self, label: str) -> list[str]:
        """The names of the volumes with this label."""
        with _errors(self.address):
            found = self._api.volumes(filters={"label": label})
        return [volume["Name"] for volume in found["Volumes"] or []]

    def remove_volume(self, name: str) -> None:
        """Remove a volume that no container uses. Does nothing if it does not exist."""
        with _errors(self.address, 404):
            self._api.remove_volume(name)

    def remove_network(self, name: str) -> None:
        """Remove a network. Does nothing if it does not exist."""
        with _errors(self.address, 404):
            self._api.remove_network(name)


class _Quiet(Exception):
    """There was no event for QUIET_SEC."""


def _limits(spec: ContainerSpec) -> dict[str, Any]:
    """What a container may use of the machine, as options of `create_host_config`."""
    limits: dict[str, Any] = {"shm_size": spec.shm}
    if spec.memory is not None:
        limits |= {"mem_limit": spec.memory, "memswap_limit": spec.memory}
    if spec.cpus is not None:
        limits["nano_cpus"] = round(spec.cpus * 1e9)
    if spec.locked_memory:
        limits["ulimits"] = [Ulimit(name="memlock", soft=-1, hard=-1)]
    if spec.gpus:
        kind = {"driver": "cdi"} if "=" in spec.gpus[0] else {"capabilities": [["gpu"]]}
        limits["device_requests"] = [DeviceRequest(device_ids=list(spec.gpus), **kind)]
    return limits


@contextmanager
def _silence() -> Iterator[None]:
    try:
        yield
    except requests.exceptions.ReadTimeout as error:
        raise _Quiet from error
    except requests.exceptions.ConnectionError as error:
        if error.args and isinstance(error.args[0], urllib3.exceptions.ReadTimeoutError):
            raise _Quiet from error
        raise


@contextmanager
def _errors(address: str, *forgiven: int) -> Iterator[None]:
    """A context that turns the package's errors into ours and ignores answers with a `forgiven` HTTP status."""
    try:
        yield
    except docker.errors.APIError as error:
        status = error.response.status_code if error.response is not None else 0
        if status in forgiven:
            return
        raise EngineRefused(str(error.explanation or error), status) from error
    except docker.errors.DockerException as error:
        if not isinstance(error.__cause__, (requests.exceptions.RequestException, OSError)):
            raise EngineRefused(str(error), 0) from error  # of the package itself, for example about stored passwords
        raise _gone(address, error) from error
    except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        raise _gone(address, error) from error


def _despite_removals(ask: Callable[[], Any]) -> Any:
    """The engine's answer about images, asked again if another process was removing one."""
    for _ in range(_TRIES):
        try:
            return ask()
        except docker.errors.APIError as error:
            if _REMOVED not in str(error.explanation):
                raise
    return ask()


def _gone(address: str, error: BaseException) -> EngineGone:
    return EngineGone(f"the container engine at {address} does not answer: {_reason(error)}")


def _version(text: str) -> tuple[int, ...]:
    """The first two numbers of a version."""
    return tuple(int(number) for number in text.split(".")[:2] if number.isdecimal())


def _reason(error: BaseException) -> str:
    """The text of the innermost error: docker and requests wrap their errors several times."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return getattr(error, "strerror", None) or str(error)


def _hardware_address(address: str) -> str:
    """The MAC address for an IP address. It must not change when a task is retried: peers cache it for minutes."""
    return ":".join(["02", "42", *(f"{int(part):02x}" for part in address.split("."))])
