"""Prefixes that launchers and loggers put before a line: the rank that wrote it, and the time.

Sources of the forms: PyTorch's exception hook and C++ logs (`[rank3]:`), torchrun's `[default0]:` and `[worker0]:`,
`srun --label` (`0: `), Open MPI's `--tag-output` and Horovod (`[1,3]<stderr>:`), Ray (`(pid=7)`, `(Name pid=7, ip=…)`),
Compose and kedge (`worker-0 | `), kubectl (`[pod/worker-0/main] `), and ISO time stamps
of container logs (with `stderr F` where the kubelet wrote them).
"""

from __future__ import annotations

from kedge.diagnose.regex import regex
from kedge.light.functools import cache

_PREFIX = (
    rb"(?:\[(?P<tagged>(?:rank|default|worker|trainer|role_?|node|[A-Za-z_]+_rank)_?\d+)\]:[ ]?"
    rb"|\[(?:[\w.@\-]+, ?)?(?P<mpi>\d+)\](?:\[[^\[\]]*\])?<std(?:out|err)>: ?"
    rb"|\((?P<ray>(?:[\w.:\-<>()=,/\[\]' ]{1,120} )?pid=\d+(?:, ?\w+=[\w.:\-]+)*)\) ?"
    rb"|(?P<piped>[A-Za-z][\w.\-/]*[\-:_\[]\d+\]?)\s*\| "
    rb"|\[pod/(?P<pod>[\w.\-/]+)\] "
    rb"|(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?)(?:Z|[+-]\d\d:?\d\d)?"
    rb"(?: std(?:out|err) [FP] |: | - |\]? \|? ?)"
    rb"|\[(?P<time2>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?)\] ?"
    rb"|(?P<srun>\d{1,4}): )"
)
_STARTS = frozenset(bytes([start]) for start in b"[(0123456789")  # of prefixes without `|`


def split(line: bytes) -> tuple[str, str, bytes]:
    """The rank and the time before a line, as written (empty if there is none), and the line without its prefixes: up
    to four are removed, and the innermost rank counts."""
    rank = time = ""
    for _ in range(4):
        if line[:1] not in _STARTS and b"|" not in line:
            break  # most lines have no prefix
        found = regex(_PREFIX).match(line)
        if not found:
            break
        number = found.lastindex
        text, kind = found[number].decode("latin-1"), _kinds()[number]
        if kind.startswith(b"time"):
            time = text
        else:
            rank = f"rank{text}" if kind in (b"mpi", b"srun") else text
        line = line[found.end() :]
    return rank, time, line


@cache
def _kinds() -> dict[int, bytes]:
    """The names of the groups by their numbers; RE2's own `lastgroup` collects them for each match."""
    return {number: name for name, number in regex(_PREFIX).groupindex.items()}


def plain(line: bytes) -> bytes:
    """The line without prefixes, against which patterns are matched."""
    return split(line)[2]
