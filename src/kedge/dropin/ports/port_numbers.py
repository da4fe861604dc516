"""The numbers of a task's ports. Nobody assigns them: every task computes those of all tasks by the same rule."""

from __future__ import annotations

from kedge.light.hashlib import md5
from kedge.light.types import Any, NamedTuple


class PortSchedule(NamedTuple):
    """The ports of a role's tasks. `counts` has the number of ports by label, in the job's order. The numbers depend on
    the pod's UID and lie from `start` to below `end`; those of the labels in `bases`, an older form, depend on the
    task's index."""

    counts: dict[str, int]
    start: int = 0
    end: int = 0
    bases: dict[str, int] = {}  # noqa: RUF012  (never changed)


def port_schedule(spec: Any) -> PortSchedule:
    """The schedule that the annotation of a pod describes; None is one without ports. ValueError: it is wrong."""
    if spec is None:
        return PortSchedule({})
    if not isinstance(spec, dict):
        raise ValueError("it is not a mapping")
    inner = spec.get("ports")
    labels = inner if isinstance(inner, dict) else spec
    counts = {label: _number(row, "count", label) for label, row in labels.items()}
    if "schedulePortStart" not in spec:
        bases = {label: _number(row, "start", label) for label, row in labels.items()}
        return PortSchedule(counts, bases=bases)
    start, end = (_number(spec, key, "the range") for key in ("schedulePortStart", "schedulePortEnd"))
    if start >= end:
        raise ValueError(f"the range from {start} to {end} is empty")
    return PortSchedule(counts, start, end)


def ports(schedule: PortSchedule, pod_uid: str | None, index: int) -> dict[str, list[int]]:
    """The ports of one task by label. Empty for a task whose pod is not known, if they depend on that."""
    if schedule.bases:
        firsts = {label: schedule.bases[label] + count * index for label, count in schedule.counts.items()}
        return {label: list(range(firsts[label], firsts[label] + count)) for label, count in schedule.counts.items()}
    if pod_uid is None:
        return {}
    size = schedule.end - schedule.start
    return {
        label: [_hashed(pod_uid, label, number) % size + schedule.start for number in range(count)]
        for label, count in schedule.counts.items()
    }


def _hashed(pod_uid: str, label: str, number: int) -> int:
    digest = md5(f"[{pod_uid}][{label}][{number}]".encode(), usedforsecurity=False).hexdigest()
    return int(digest[:12], 16) + int(digest[12:24], 16) + int(digest[24:], 16)


def _number(row: Any, key: str, label: str) -> int:
    number = row.get(key) if isinstance(row, dict) else None
    if type(number) is not int or not 0 <= number <= 65536:
        raise ValueError(f"{label} has no number {key!r} between 0 and 65536")
    return number
