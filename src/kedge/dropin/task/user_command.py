"""Init program: Write the TaskSpec with the user's command, unless frameworkParser has. References to secrets stay
placeholders, which the supervisor fills in when it writes user.sh: their values are in no log and no specification."""

from __future__ import annotations

import os

from kedge.dropin.paths import TASK_SPEC
from kedge.dropin.program import SUCCEEDED, InitContext
from kedge.dropin.task import task_file
from kedge.light.types import Sequence


def run(arguments: Sequence[str], context: InitContext) -> int:
    """Write kedge-task.json from RUNTIME_CONFIG, runtime_plugin.yaml, or the job's configuration. Arguments are
    ignored."""
    if os.path.exists(f"{context.paths.runtime_d}/{TASK_SPEC}"):
        context.log.info(f"{TASK_SPEC} has the user's command already")
        return SUCCEEDED
    return task_file.write(context, None)
