"""What the GPUs of a task say about themselves: errors of their memory, and what they need to recover.

The driver is asked in a child process with a deadline (gpu_probe.py); where that tells nothing, nvidia-smi is.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

DEADLINE_SEC = 4.5  # the first call after a boot may take seconds
_PROBE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu_probe.py")
_ECC_OLD = "double_bit"
_ECC_NEW = ("dram_uncorrectable", "sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded")
_XID = re.compile(rb"NVRM: Xid \([^)]*\): (\d+)")

Gpu = Mapping[str, Any]


def facts(environment: Mapping[str, str], since: float, deadline_sec: float = DEADLINE_SEC) -> dict[str, float]:
    """Numbers about the GPUs that `environment` lets the task see. `since`: seconds of the monotonic clock; the library
    and nvidia-smi have `deadline_sec` each.

    `ecc_errors` (uncorrectable, since the driver was loaded), `gpu_recovery_action` (the worst; 0: none needed),
    `gpu_retired_pages`, `gpu_remapped_rows`, `gpu_remap_failures`, `gpu_xid` (the last since `since`)."""
    if environment.get("CUDA_VISIBLE_DEVICES") == "":  # a task without GPUs
        return {}
    gpus = _ask([sys.executable, "-I", "-S", _PROBE], parse_probe, deadline_sec)
    seen = visible(gpus or _ask(["nvidia-smi", "-q", "-x"], parse_smi, deadline_sec), environment)
    found = summary(seen)
    xid = last_xid(_kernel_log(), since) if seen else None
    return found if xid is None else found | {"gpu_xid": xid}


def visible(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> list[Gpu]:
    """Those that the task may use: CUDA_VISIBLE_DEVICES names them by number or UUID, or not at all. Parts of GPUs
    (MIG) cannot be told apart."""
    setting = environment.get("CUDA_VISIBLE_DEVICES")
    if setting is None or "MIG-" in setting:
        return list(gpus)
    names = [name.strip() for name in setting.split(",") if name.strip()]
    return [gpu for gpu in gpus if any(_is(gpu, name) for name in names)]


def summary(gpus: Iterable[Gpu]) -> dict[str, float]:
    """The facts about several GPUs together; what none of them tells is left out."""
    kinds: dict[str, tuple[str, Callable[[list[float]], float]]] = {
        "ecc_errors": ("ecc_errors", sum),
        "gpu_recovery_action": ("recovery_action", max),
        "gpu_retired_pages": ("retired_pages", sum),
        "gpu_remapped_rows": ("remapped_rows", sum),
        "gpu_remap_failures": ("remap_failed", sum),
    }
    gpus = list(gpus)
    told = {fact: [gpu[key] for gpu in gpus if gpu.get(key) is not None] for fact, (key, _) in kinds.items()}
    return {fact: kinds[fact][1](numbers) for fact, numbers in told.items() if numbers}


def parse_probe(text: str) -> list[Gpu]:
    """The GPUs in the output of gpu_probe.py."""
    found: list[Gpu] = json.loads(text)
    return found


def parse_smi(xml: str) -> list[Gpu]:
    """The GPUs in the output of `nvidia-smi -q -x`, of old and of new drivers."""
    return [_of_xml(index, part) for index, part in enumerate(re.findall(r"(?s)<gpu id=.*?</gpu>", xml))]


def last_xid(kernel_log: bytes, since: float) -> int | None:
    """The last error code (Xid) that the driver has logged since then. Records as in /dev/kmsg: microseconds since the
    machine was started are the third field."""
    last = None
    for record in kernel_log.split(b"\n"):
        head, _, text = record.partition(b";")
        fields = head.split(b",")
        if (found := _XID.match(text)) and len(fields) > 2 and int(fields[2]) >= since * 1e6:
            last = int(found[1])
    return last


def _ask(command: list[str], parse: Callable[[str], list[Gpu]], deadline_sec: float) -> list[Gpu]:
    """The GPUs that a program tells of; none if it cannot, does not in time, or says something else."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=deadline_sec, check=True)
        return parse(done.stdout.decode(errors="replace"))
    except (OSError, subprocess.SubprocessError, ValueError):
        return []


def _is(gpu: Gpu, name: str) -> bool:
    return int(gpu["index"]) == int(name) if name.isdecimal() else str(gpu["uuid"]).startswith(name)


def _of_xml(index: int, xml: str) -> Gpu:
    ecc = _inside(_inside(xml, "ecc_errors"), "volatile")
    rows, pages = _inside(xml, "remapped_rows"), _inside(xml, "retired_pages")
    counts = [_number(_inside(_inside(ecc, _ECC_OLD), "total")), *(_number(_inside(ecc, name)) for name in _ECC_NEW)]
    told = [count for count in counts if count is not None]
    retired = [_number(text) for text in re.findall(r"<retired_count>(.*?)</", pages)]
    return {
        "index": index,
        "uuid": _inside(xml, "uuid"),
        "ecc_errors": sum(told) if told else None,
        "retired_pages": sum(filter(None, retired)) if retired else None,
        "remapped_rows": _number(_inside(rows, "remapped_row_unc")),
        "remap_failed": {"Yes": 1, "No": 0}.get(_inside(rows, "remapped_row_failure")),
    }


def _inside(xml: str, name: str) -> str:
    """The text of the first element of that name."""
    found = re.search(rf"(?s)<{name}>(.*?)</{name}>", xml)
    return found[1].strip() if found else ""


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _kernel_log() -> bytes:
    """What the kernel's buffer holds; nothing where we may not read it."""
    records = []
    try:
        fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            while True:
                records.append(os.read(fd, 8192))
        finally:
            os.close(fd)
    except OSError:  # the end of the buffer, too
        return b"".join(records)
