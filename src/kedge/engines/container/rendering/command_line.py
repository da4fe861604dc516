"""Renders a container as a shell command that works with both Docker and Podman. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from kedge.engines.container.rendering.container_spec import LOG_LIMIT, TMPFS_OPTIONS, ContainerSpec, Volume


def command_line(spec: ContainerSpec, program: str = "docker") -> str:
    """`docker run …` with all that the engine would be asked for, one option per line. Its volumes are made
    before, and removed after it."""
    first, *rest = spec.entrypoint
    head = [program, "run", "--rm", *_option("--name", spec.name)]
    lines = [shlex.join(head), *(shlex.join(option) for option in _options(spec))]
    lines.append(shlex.join(["--entrypoint", first, spec.image, *rest]))
    volumes = [f"{shlex.join(_volume(program, volume))} && \\\n" for volume in spec.volumes]
    after = [f"; {shlex.join([program, 'volume', 'rm', volume.name])}" for volume in spec.volumes]
    return "".join((*volumes, " \\\n  ".join(lines), *after))


def _volume(program: str, volume: Volume) -> list[str]:
    options = [word for key, value in volume.options.items() for word in ("--opt", f"{key}={value}")]
    return [program, "volume", "create", *options, volume.name]


def _option(name: str, value: object) -> list[str]:
    return [name, str(value)]


def _options(spec: ContainerSpec) -> Iterator[list[str]]:
    yield _option("--network", spec.network)
    if spec.network != "host":
        yield _option("--hostname", spec.hostname)
    if spec.address:
        yield _option("--ip", spec.address)
    yield from (_option("--add-host", f"{name}:{address}") for name, address in (spec.hosts or {}).items())
    yield from (_option("--label", f"{name}={value}") for name, value in spec.labels.items())
    yield from (_option("--env", f"{name}={value}") for name, value in spec.environment.items())
    yield from (_option("--tmpfs", f"{path}:{TMPFS_OPTIONS}") for path in spec.tmpfs)
    for bind in spec.binds:
        yield _option("--volume", f"{bind.source}:{bind.target}:{spec.options(bind)}")
    if spec.memory is not None:
        yield [*_option("--memory", spec.memory), *_option("--memory-swap", spec.memory)]
    if spec.cpus is not None:
        yield _option("--cpus", spec.cpus)
    yield _option("--shm-size", spec.shm)
    yield from (_option("--device", path) for path in spec.devices)
    if spec.gpus:
        is_cdi = "=" in spec.gpus[0]
        yield from (
            [_option("--device", name) for name in spec.gpus]
            if is_cdi
            else [_option("--gpus", f'"device={",".join(spec.gpus)}"')]
        )
    if spec.locked_memory:
        yield _option("--ulimit", "memlock=-1:-1")
    yield from _restrictions(spec)
    yield _option("--log-opt", f"max-size={LOG_LIMIT}")


def _restrictions(spec: ContainerSpec) -> Iterator[list[str]]:
    if spec.user is not None:
        yield _option("--user", spec.user)
    if spec.userns is not None:
        yield _option("--userns", spec.userns)
    if spec.pids is not None:
        yield _option("--pids-limit", spec.pids)
    yield from (_option("--cap-drop", name) for name in spec.dropped)
    yield from (_option("--cap-add", name) for name in spec.added)
    yield from (_option("--security-opt", option) for option in spec.security)
