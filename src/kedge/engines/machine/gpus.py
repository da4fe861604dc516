"""The GPUs of this machine, each given to one job at a time.

Only the GPUs that CUDA_VISIBLE_DEVICES leaves are used. A job claims each of its GPUs; a claim lasts as long as any
process has its descriptor open, so a task's supervisor that outlives its controller keeps its GPUs. GPUs that another
user claims are not used, and the error names that user.
"""

from __future__ import annotations

import functools
import json
import os
import pwd
import sys
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from kedge import processes
from kedge.claims.locks import FOLDER, Claims, Folder, of_others
from kedge.errors import CannotRun
from kedge.quick_dataclasses import dataclass

DEADLINE_SEC = 20.0  # a driver without persistence takes seconds to start, and longer on a busy machine
_SETTING = "CUDA_VISIBLE_DEVICES"
_AFTER_PORTS = 1 << 16  # smaller claim numbers are ports
_PROBE = Path(__file__).with_name("nvml.py")


class Device(NamedTuple):
    """A GPU, or a part of one (MIG), by its UUID. `number` is its index in PCI bus order, -1 for a part."""

    number: int
    uuid: str


class MachineGpus(NamedTuple):
    """All GPUs of the machine, in the order of the PCI bus; `problem` is why the driver could not list them."""

    devices: tuple[Device, ...]
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU that this job has claimed, until every process has closed `claim_fd`."""

    device: Device
    claim_fd: int


def count() -> int:
    """The number of usable GPUs, whether claimed or not; 0 without a driver. CannotRun if the driver has a problem."""
    return len(_ours())


def present() -> str:
    """The number of usable GPUs, as a clause for messages. CannotRun as `count`."""
    number = count()
    gpus = {0: "no GPU", 1: "1 GPU"}.get(number, f"{number} GPUs")
    setting = os.environ.get(_SETTING)
    if setting is not None and number < len(_machine().devices):
        return f"{_SETTING}={setting} leaves it {gpus} of {len(_machine().devices)}"
    return f"this machine has {gpus}"


@contextmanager
def acquired(count: int, folder: Folder = FOLDER, busy: Collection[str] = ()) -> Iterator[list[Gpu]]:
    """A context that acquires GPUs; at its end this process closes their descriptors."""
    gpus = acquire(count, folder, busy)
    try:
        yield gpus
    finally:
        for gpu in gpus:
            os.close(gpu.claim_fd)


def acquire(count: int, folder: Folder = FOLDER, busy: Collection[str] = ()) -> list[Gpu]:
    """Claim `count` GPUs that no other job has. CannotRun names how many are needed, present and taken.

    `busy` are the UUIDs of GPUs that are in use whether or not they are claimed.
    Child processes inherit a descriptor only if it is passed on explicitly (pass_fds).
    """
    return take(count, _ours(), folder, busy) if count else []


def take(count: int, devices: Sequence[Device], folder: Folder, busy: Collection[str] = ()) -> list[Gpu]:
    """Claim `count` of these devices, as `acquire` does."""
    taken: list[Gpu] = []
    try:
        for device in (device for device in devices if device.uuid not in busy):
            if len(taken) < count and (fd := _claim(claim_number(device), folder)) is not None:
                taken.append(Gpu(device, fd))
        if len(taken) < count:
            raise CannotRun(
                f"the job needs {count} GPUs; there are {len(devices)} and "
                f"{len(devices) - len(taken)} of them are taken by other jobs{_other_users(devices, folder)}"
            )
    except BaseException:
        for gpu in taken:
            os.close(gpu.claim_fd)
        raise
    return taken


def _claim(number: int, folder: Folder) -> int | None:
    """A descriptor that claims the GPU; None if another job or user has claimed it.

    Two users who ask at the same instant may both fail, but never both succeed: each claims before checking."""
    claim = Claims(folder)
    if claim.fd is None:
        raise CannotRun(f"{folder}: cannot be used to claim GPUs: no file can be made in it")
    if claim.take(number) and not any(number in other.numbers for other in of_others(folder)):
        return claim.fd
    claim.close()
    return None


def claim_number(device: Device) -> int:
    """The number of the claim on a GPU."""
    return _AFTER_PORTS + zlib.crc32(device.uuid.encode())


def _other_users(devices: Sequence[Device], folder: Folder) -> str:
    users = {claim.user for claim in of_others(folder) for each in devices if claim_number(each) in claim.numbers}
    return f" (including jobs of {', '.join(sorted(map(_name, users)))})" if users else ""


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def environment(gpus: Sequence[Gpu]) -> dict[str, str]:
    """The variables that make only its own GPUs visible to a task.

    GPUs are named by number in the order of the bus, since many programs expect numbers; a part of a GPU has only a
    UUID.
    """
    devices = [gpu.device for gpu in gpus]
    by_number = all(device.number >= 0 for device in devices)
    names = ",".join(str(device.number) if by_number else device.uuid for device in devices)
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        _SETTING: names,
        "NVIDIA_VISIBLE_DEVICES": names or "none",
    }


def visible(devices: Sequence[Device], setting: str | None) -> list[Device]:
    """The devices that CUDA_VISIBLE_DEVICES names, by number in the order of the bus or by a prefix of the UUID.

    As in CUDA, the first unknown name ends the list.
    """
    if setting is None:
        return list(devices)
    chosen: dict[Device, None] = {}
    for name in setting.split(","):
        device = _named(devices, name.strip())
        if device is None:
            break
        chosen[device] = None
    return list(chosen)


def _named(devices: Sequence[Device], name: str) -> Device | None:
    if name.startswith("MIG-"):
        return Device(-1, name)
    if name.isdecimal():
        return next((device for device in devices if device.number == int(name)), None)
    found = [device for device in devices if name.startswith("GPU-") and device.uuid.startswith(name)]
    return found[0] if len(found) == 1 else None


def _ours() -> list[Device]:
    found = _machine()
    if found.problem:
        raise CannotRun(f"the GPUs of this machine cannot be used: {found.problem}; nvidia-smi may show more")
    return visible(found.devices, os.environ.get(_SETTING))


@functools.cache  # a driver without persistence takes seconds to start, and GPUs do not come and go
def _machine() -> MachineGpus:
    return probe()


def probe(deadline_sec: float = DEADLINE_SEC) -> MachineGpus:
    """Ask the driver for the GPUs, in a child process with a deadline."""
    import subprocess  # slow to load, and many jobs need no GPU

    command = [sys.executable, "-P", str(_PROBE)]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = child.communicate(timeout=deadline_sec)
    except subprocess.TimeoutExpired:
        _give_up(child)
        return MachineGpus((), f"the NVIDIA driver did not answer within {deadline_sec:g} s")
    if child.returncode != 0:
        last = err.decode(errors="replace").strip().rpartition("\n")[2]
        return MachineGpus((), f"the query of the NVIDIA driver failed with exit code {child.returncode}: {last}")
    answer = json.loads(out)
    return MachineGpus(tuple(Device(number, uuid) for number, uuid in answer["gpus"]), answer["problem"])


def _give_up(child: Any) -> None:
    """`child` is a subprocess.Popen."""
    import subprocess

    processes.kill_tree(child.pid, 1.0)  # the driver's library starts programs such as nvidia-modprobe
    for pipe in (child.stdout, child.stderr):
        if pipe:
            pipe.close()
    with suppress(subprocess.TimeoutExpired):  # a process that hangs in the kernel cannot be killed
        child.wait(0.1)
