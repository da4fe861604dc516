"""The health of a task's GPUs: memory errors, and the action they need to recover.

A child process with a deadline queries the driver (gpu_probe.py). Where that fails, nvidia-smi is used.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

DEADLINE_SEC = 4.5  # the first call after booting may take seconds
_PROBE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu_probe.py")
_ECC_OLD = "double_bit"
_ECC_NEW = ("dram_uncorrectable", "sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded")
_XID = re.compile(rb"NVRM: Xid \([^)]*\): (\d+)")

Gpu = Mapping[str, Any]


def facts(environment: Mapping[str, str], since: float, deadline_sec: float = DEADLINE_SEC) -> dict[str, float]:
    """Facts about the GPUs that `environment` makes visible to the task. `since` is in seconds of the monotonic clock;
    the library and nvidia-smi have `deadline_sec` each.

    The keys: `ecc_errors` (uncorrectable, since the driver was loaded), `gpu_recovery_action` (the worst; 0 means none
    is needed), `gpu_retired_pages`, `gpu_remapped_rows`, `gpu_remap_failures`, `gpu_xid` (the last one since `since`).
    """
    if environment.get("CUDA_VISIBLE_DEVICES") == "":  # a task without GPUs
        return {}
    gpus = _run([sys.executable, "-I", "-S", _PROBE], parse_probe, deadline_sec)
    used = visible(gpus or _run(["nvidia-smi", "-q", "-x"], parse_smi, deadline_sec), environment)
    totals = summary(used)
    xid = last_xid(_kernel_log(), since) if used else None
    return totals if xid is None else totals | {"gpu_xid": xid}


def visible(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> list[Gpu]:
    """The GPUs that the task may use: those that CUDA_VISIBLE_DEVICES lists by number or UUID, all of them if it is
    unset. If it lists parts of GPUs (MIG), all of them too, because a part cannot be assigned to its GPU."""
    setting = environment.get("CUDA_VISIBLE_DEVICES")
    if setting is None or "MIG-" in setting:
        return list(gpus)
    names = [name.strip() for name in setting.split(",") if name.strip()]
    return [gpu for gpu in gpus if any(_is(gpu, name) for name in names)]


def summary(gpus: Iterable[Gpu]) -> dict[str, float]:
    """The facts about several GPUs together. Facts that none of them reports are omitted."""
    kinds: dict[str, tuple[str, Callable[[list[float]], float]]] = {
        "ecc_errors": ("ecc_errors", sum),
        "gpu_recovery_action": ("recovery_action", max),
        "gpu_retired_pages": ("retired_pages", sum),
        "gpu_remapped_rows": ("remapped_rows", sum),
        "gpu_remap_failures": ("remap_failed", sum),
    }
    gpus = list(gpus)
    reported = {fact: [gpu[key] for gpu in gpus if gpu.get(key) is not None] for fact, (key, _) in kinds.items()}
    return {fact: kinds[fact][1](numbers) for fact, numbers in reported.items() if numbers}


def parse_probe(text: str) -> list[Gpu]:
    """The GPUs in the output of gpu_probe.py."""
    found: list[Gpu] = json.loads(text)
    return found


def parse_smi(xml: str) -> list[Gpu]:
    """The GPUs in the output of `nvidia-smi -q -x`, from old and new drivers."""
    return [_of_xml(index, part) for index, part in enumerate(re.findall(r"(?s)<gpu id=.*?</gpu>", xml))]


def last_xid(kernel_log: bytes, since: float) -> int | None:
    """The last error code (Xid) that the driver has logged since `since` (seconds of the monotonic clock). `kernel_log`
    has records as in /dev/kmsg, whose third field is microseconds since boot."""
    last = None
    for record in kernel_log.split(b"\n"):
        head, _, text = record.partition(b";")
        fields = head.split(b",")
        if (found := _XID.match(text)) and len(fields) > 2 and int(fields[2]) >= since * 1e6:
            last = int(found[1])
    return last


def _run(command: list[str], parse: Callable[[str], list[Gpu]], deadline_sec: float) -> list[Gpu]:
    """The GPUs that a program lists. None if it fails, takes too long, or prints something else."""
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
    reported = [count for count in counts if count is not None]
    retired = [_number(text) for text in re.findall(r"<retired_count>(.*?)</", pages)]
    return {
        "index": index,
        "uuid": _inside(xml, "uuid"),
        "ecc_errors": sum(reported) if reported else None,
        "retired_pages": sum(filter(None, retired)) if retired else None,
        "remapped_rows": _number(_inside(rows, "remapped_row_unc")),
        "remap_failed": {"Yes": 1, "No": 0}.get(_inside(rows, "remapped_row_failure")),
    }


def _inside(xml: str, name: str) -> str:
    """The contents of the first element with this name, empty if there is none."""
    found = re.search(rf"(?s)<{name}>(.*?)</{name}>", xml)
    return found[1].strip() if found else ""


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _kernel_log() -> bytes:
    """The contents of the kernel's log buffer. Empty without permission to read it."""
    records = []
    try:
        fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            while True:
                records.append(os.read(fd, 8192))
        finally:
            os.close(fd)
    except OSError:  # also raised at the end of the buffer
        return b"".join(records)
