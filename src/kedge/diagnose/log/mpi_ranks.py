"""The rank that failed first, as MPI's launcher names it after the ranks' own messages."""

from __future__ import annotations

from kedge.diagnose.regex import regex
from kedge.light.types import Iterable

# The rank, then the node if it is named: Open MPI 4 (mpirun) and 5 (prterun); MPICH's and Intel MPI's Hydra.
_NAMED = (
    rb"noticed that process rank (\d+) with PID \d+ on node (\S+?) exited",
    rb"^\s*Process name: \[(?:\[\d+,\d+\]|[^\[\]]*@\d+),(\d+)\]()",
    rb"^MPI_ABORT was invoked on rank (\d+) in communicator()",
    rb"\bapplication called MPI_Abort\(.{1,80}\) - process (\d+)()",
    rb"^=\s+RANK (\d+) PID \d+ RUNNING AT (\S+)",
)


def failed_first(lines: Iterable[bytes]) -> str:
    """`rank 3 on worker-1`, or only `rank 3`; empty if none of the lines names it."""
    for line in lines:
        for pattern in _NAMED:
            if found := regex(pattern).search(line):
                rank, node = found[1].decode(), found[2].decode(errors="replace")
                return f"rank {rank} on {node}" if node else f"rank {rank}"
    return ""
