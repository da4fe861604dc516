"""The process of one action: what the runtime does itself, outside of the supervisor.

    python -I -S .../kedge/runtime --action PARAMETERS_FD ANSWER_FD

It is started like a hook's script: in the task's working directory, with its environment, its output going to
runtime.log. The first descriptor is a file with the JSON of kedge.runtime.setup.parameters. To the second go lines of
JSON: {"message", "next_try", "tries", "delay_sec"} before each further try, and if it fails {"cause": as diagnose/
names it or null, "message": text, "retry_after_sec": what a server said or null}.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

from kedge.contract import PREREQUISITE_TRANSIENT
from kedge.runtime import bugs
from kedge.runtime.actions.base import ActionFailed, ActionJob, of_os_error

_KINDS = ("git", "download")


def main(argv: Sequence[str]) -> int:
    """The exit status: 0, PREREQUISITE_TRANSIENT for what may pass, else the failure's own code."""
    wanted, answer = (int(number) for number in argv[1:3])
    for fd in (wanted, answer):
        os.set_inheritable(fd, False)
    signal.signal(signal.SIGTERM, _stop)
    with open(wanted, "rb") as file:
        data = json.load(file)
    job = ActionJob(data["tasks"], data["pai"], tuple(data["secrets"]), answer)
    failed = _run(data["kind"], data["parameters"], job)
    if failed is None:
        return 0
    job.say(str(failed))
    job.answer(cause=failed.cause, message=str(failed), retry_after_sec=failed.delay_sec)
    return PREREQUISITE_TRANSIENT if failed.transient else failed.code


def _run(kind: str, parameters: dict[str, Any], job: ActionJob) -> ActionFailed | None:
    try:
        if kind not in _KINDS:
            raise ActionFailed(f"there is no action {kind!r}; kedge's runtime may be too old for this job")
        importlib.import_module(f"kedge.runtime.actions.{kind}").run(parameters, job)
    except ActionFailed as failed:
        return failed
    except ModuleNotFoundError as error:
        return ActionFailed(
            f"the action {kind!r} is not in this runtime (no {error.name}): its bundle needs the layer net"
        )
    except OSError as error:
        return of_os_error(error)
    except MemoryError:
        return ActionFailed(f"the action {kind!r} needs more memory than it may have", "host_oom_alloc")
    except Exception as error:  # said in the log
        job.say(bugs.describe(error).rstrip())
        return ActionFailed(bugs.sentence(error))
    return None


def _stop(_number: int, _frame: FrameType | None) -> None:
    """Leave through every `finally`: nothing half-done stays behind."""
    sys.exit(128 + signal.SIGTERM)
