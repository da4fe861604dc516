"""The process of one action, which the runtime runs outside the supervisor.

    python -I -S .../kedge/runtime --action PARAMETERS_FD REPORT_FD

It is started like a hook's script: in the task's working directory, with the task's environment, and with its output in
runtime.log. The first descriptor is a file with the JSON of kedge.runtime.setup.parameters. Lines of JSON go to the
second: {"message", "next_try", "tries", "delay_sec"} before each further try, and after a failure {"cause": a name from
diagnose/ or null, "message": text, "retry_after_sec": the pause that a server asked for or null}.
A service sends {"ready": true, "address": "host:port" or null} once it works, see kedge.runtime.hooks.services.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

from kedge.contract import PREREQUISITE_TRANSIENT
from kedge.lazy_modules import ACTIONS, load_place
from kedge.runtime import bugs
from kedge.runtime.actions.base import ActionFailed, ActionJob, of_os_error


def main(argv: Sequence[str]) -> int:
    """Run the action and return the exit status: 0, PREREQUISITE_TRANSIENT, or the code of a permanent failure."""
    parameters_fd, report_fd = (int(number) for number in argv[1:3])
    for fd in (parameters_fd, report_fd):
        os.set_inheritable(fd, False)
    signal.signal(signal.SIGTERM, _stop)
    with open(parameters_fd, "rb") as file:
        data = json.load(file)
    if data["site"]:
        sys.path.append(data["site"])
    job = ActionJob(data["tasks"], data["pai"], tuple(data["secrets"]), report_fd)
    failed = _run(data["kind"], data["parameters"], job)
    if failed is None:
        return 0
    job.log(str(failed))
    job.report(cause=failed.cause, message=str(failed), retry_after_sec=failed.delay_sec)
    return PREREQUISITE_TRANSIENT if failed.transient else failed.code


def _run(kind: str, parameters: dict[str, Any], job: ActionJob) -> ActionFailed | None:
    try:
        if kind not in ACTIONS:
            raise ActionFailed(f"there is no action {kind!r}; kedge's runtime may be too old for this job")
        load_place(ACTIONS[kind]).run(parameters, job)
    except ActionFailed as failed:
        return failed
    except ModuleNotFoundError as error:
        layer = "ssh" if kind.startswith("ssh-") else "net"
        return ActionFailed(
            f"the action {kind!r} is not in this runtime ({error.name} is missing): its bundle needs the layer {layer}"
        )
    except OSError as error:
        return of_os_error(error)
    except MemoryError:
        return ActionFailed(f"the action {kind!r} needs more memory than the task's limit", "host_oom_alloc")
    except Exception as error:  # logged
        job.log(bugs.describe(error).rstrip())
        return ActionFailed(bugs.sentence(error))
    return None


def _stop(_number: int, _frame: FrameType | None) -> None:
    """Exit through every `finally`, so that no unfinished files are left behind."""
    sys.exit(128 + signal.SIGTERM)
