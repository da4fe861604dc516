"""The GPUs of this machine, each given to one job at a time.

Ours are those that CUDA_VISIBLE_DEVICES leaves us. A job claims each of its GPUs; the claim lasts as long as any
process has its descriptor open, so a task's supervisor that outlives its controller keeps its GPUs. GPUs that another
user claims are not given out, and the refusal says whose they are.
"""

from __future__ import annotations

import functools
import json
import os
import pwd
import subprocess
import sys
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kedge import processes
from kedge.engines.machine.claims import FOLDER, Claims, of_others
from kedge.errors import CannotRun

DEADLINE_SEC = 20.0  # a driver without persistence takes seconds to start, a busy machine some more
_SETTING = "CUDA_VISIBLE_DEVICES"
_AFTER_PORTS = 1 << 16  # the numbers of claims before are those of ports
_PROBE = Path(__file__).with_name("nvml.py")


class Device(NamedTuple):
    """A GPU, or a part of one (MIG), by its UUID. `number` is its place on the PCI bus, -1 for a part."""

    number: int
    uuid: str


class MachineGpus(NamedTuple):
    """All GPUs of the machine, in the order of the PCI bus; `problem` says why the driver did not tell."""

    devices: tuple[Device, ...]
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU that this job has. Closing `claim_fd` everywhere gives it back."""

    device: Device
    claim_fd: int


def count() -> int:
    """How many GPUs there are for us, taken or not; 0 without a driver. CannotRun when the driver has a problem."""
    return len(_ours())


def present() -> str:
    """How many there are, as a sentence. CannotRun as `count`."""
    number = count()
    words = {0: "no GPU", 1: "1 GPU"}.get(number, f"{number} GPUs")
    setting = os.environ.get(_SETTING)
    if setting is not None and number < len(_machine().devices):
        return f"{_SETTING}={setting} leaves it {words} of {len(_machine().devices)}"
    return f"this machine has {words}"


@contextmanager
def acquired(count: int, folder: Path = FOLDER, busy: Collection[str] = ()) -> Iterator[list[Gpu]]:
    """`acquire`, and at the end this process's hold on them is gone."""
    gpus = acquire(count, folder, busy)
    try:
        yield gpus
    finally:
        for gpu in gpus:
            os.close(gpu.claim_fd)


def acquire(count: int, folder: Path = FOLDER, busy: Collection[str] = ()) -> list[Gpu]:
    """Take so many GPUs that no other job has. CannotRun says how many are needed, there and taken.

    `busy` are the UUIDs of those that are in use whoever claims them, if anybody.
    The descriptors are not inherited unless they are passed on by name (pass_fds).
    """
    return take(count, _ours(), folder, busy) if count else []


def take(count: int, devices: Sequence[Device], folder: Path, busy: Collection[str] = ()) -> list[Gpu]:
    """`acquire` among these devices."""
    taken: list[Gpu] = []
    try:
        for device in (device for device in devices if device.uuid not in busy):
            if len(taken) < count and (fd := _claim(claim_number(device), folder)) is not None:
                taken.append(Gpu(device, fd))
        if len(taken) < count:
            raise CannotRun(
                f"the job needs {count} GPUs; there are {len(devices)} and "
                f"{len(devices) - len(taken)} of them are taken by other jobs{_of_whom(devices, folder)}"
            )
    except BaseException:
        for gpu in taken:
            os.close(gpu.claim_fd)
        raise
    return taken


def _claim(number: int, folder: Path) -> int | None:
    """A descriptor that claims the GPU; None when somebody else has it.

    Two users who ask in the same instant may both be refused, but never both get it: each claims before looking."""
    claim = Claims(folder)
    if claim.fd is None:
        raise CannotRun(f"{folder}: cannot be used to share out GPUs: no file can be made in it")
    if claim.take(number) and not any(number in other.numbers for other in of_others(folder)):
        return claim.fd
    claim.close()
    return None


def claim_number(device: Device) -> int:
    """The number of the claim on a GPU."""
    return _AFTER_PORTS + zlib.crc32(device.uuid.encode())


def _of_whom(devices: Sequence[Device], folder: Path) -> str:
    users = {claim.user for claim in of_others(folder) for each in devices if claim_number(each) in claim.numbers}
    return f" (also of {', '.join(sorted(map(_name, users)))})" if users else ""


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def environment(gpus: Sequence[Gpu]) -> dict[str, str]:
    """The variables by which a task sees its GPUs and no others.

    By number in the order of the bus, since many programs expect numbers; a part of a GPU has only a UUID.
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
    """The devices that CUDA_VISIBLE_DEVICES names, by number or by the beginning of a UUID.

    As CUDA does, the first name that means nothing ends the list. Numbers are taken in the order of the bus.
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
        raise CannotRun(f"the GPUs of this machine cannot be used: {found.problem}; nvidia-smi may say more")
    return visible(found.devices, os.environ.get(_SETTING))


@functools.cache  # a driver without persistence takes seconds to start, and GPUs do not come and go
def _machine() -> MachineGpus:
    return probe()


def probe(deadline_sec: float = DEADLINE_SEC) -> MachineGpus:
    """Ask the driver, in a child process that may take so long."""
    command = [sys.executable, "-P", str(_PROBE)]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = child.communicate(timeout=deadline_sec)
    except subprocess.TimeoutExpired:
        _give_up(child)
        return MachineGpus((), f"the NVIDIA driver does not answer within {deadline_sec:g} s")
    if child.returncode != 0:
        last = err.decode(errors="replace").strip().rpartition("\n")[2]
        return MachineGpus((), f"asking the NVIDIA driver ended with {child.returncode}: {last}")
    answer = json.loads(out)
    return MachineGpus(tuple(Device(number, uuid) for number, uuid in answer["gpus"]), answer["problem"])


def _give_up(child: subprocess.Popen[bytes]) -> None:
    processes.kill_tree(child.pid, 1.0)  # the driver's library starts programs, as nvidia-modprobe
    for pipe in (child.stdout, child.stderr):
        if pipe:
            pipe.close()
    with suppress(subprocess.TimeoutExpired):  # one that hangs in the kernel does not even die
        child.wait(0.1)
