"""Init program: Turn a framework into the job's configuration, variables and the TaskSpec."""

from __future__ import annotations

from kedge.dropin.program import FAILED, InitContext
from kedge.light.types import Sequence


def run(arguments: Sequence[str], context: InitContext) -> int:
    """Not written yet."""
    context.log.error("this program is not written yet")
    return FAILED
