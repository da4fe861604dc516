"""The action `ssh-barrier`: waits until every other task of the job can be reached by ssh.

Parameters: `timeout_sec`, how long to wait (default 1800). It reads the tasks' names from <pai>/ssh/config.

A task that reaches another one leaves its name there, in <pai>/ssh/seen, which counts as much: its own server runs, and
it may have passed the barrier and ended by the time that the other one tries.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import asyncssh

from kedge.contract import SHELL_TERMINATED
from kedge.runtime.actions.base import ActionFailed, ActionJob
from kedge.runtime.ssh import configuration, connection
from kedge.runtime.ssh.command_line import Destination, UsageError
from kedge.runtime.ssh.messages import SshFailed

_TIMEOUT_SEC = 1800.0
_LOOK_SEC = 0.1  # how often to look for tasks that have come
_FIRST_DELAY_SEC, _LONGEST_DELAY_SEC = 0.1, 10.0
_TRY_SEC = 10  # how long one try may take
_AT_ONCE = 64
_QUIET_SEC = 60.0  # how often the tasks that are waited for are logged
# The image's own sshd may not have the variable.
_LEAVE = """\
if [ "${{KEDGE_HOSTFILE-}}" ]; then
    mkdir -p "${{KEDGE_HOSTFILE%/*}}/seen" && : > "${{KEDGE_HOSTFILE%/*}}/seen/{name}"
fi 2> /dev/null
exit 0"""
_EXIT_CODE = 10  # for which the exit specification has a row, with the text below


class Waiting(NamedTuple):
    """The tasks that are not reached yet, each with why the last try failed; and a limit for tries at the same time.
    `own` is this task's name, `seen` the folder where others leave theirs."""

    own: str
    seen: str
    blocks: Mapping[str, list[str]]
    reasons: dict[str, str]
    free: asyncio.Semaphore


def run(parameters: Mapping[str, Any], job: ActionJob) -> None:
    """Wait. ActionFailed names the tasks that were not reached in time."""
    blocks = configuration.task_blocks(f"{job.pai}/ssh/config")
    blocks.pop(own := own_name(os.environ), None)
    asyncssh.set_log_level("CRITICAL")
    reasons = dict.fromkeys(blocks, "not tried")
    waiting = Waiting(own, f"{job.pai}/ssh/seen", blocks, reasons, asyncio.Semaphore(_AT_ONCE))
    asyncio.run(_wait(waiting, float(parameters.get("timeout_sec", _TIMEOUT_SEC)), job))


def own_name(variables: Mapping[str, str]) -> str:
    """The name of this task, as in the configuration."""
    return f"{variables.get('PAI_CURRENT_TASK_ROLE_NAME')}-{variables.get('PAI_TASK_INDEX')}"


async def _wait(waiting: Waiting, timeout_sec: float, job: ActionJob) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):  # nothing is left to be cleaned up
        loop.add_signal_handler(number, os._exit, SHELL_TERMINATED)
    start = time.monotonic()
    tries = {asyncio.ensure_future(_reach(waiting, name)) for name in waiting.blocks}
    while tries and (left := start + timeout_sec - time.monotonic()) > 0:
        _done, tries = await asyncio.wait(tries, timeout=min(left, _QUIET_SEC))
        if tries:
            job.log(f"[INFO] SSH barrier: waiting for {_list(waiting.reasons)}")
    for each in tries:
        each.cancel()
    if tries:
        for name, reason in waiting.reasons.items():
            job.log(f"[ERROR] {name}: {reason}")
        failed = " ".join(waiting.reasons)
        raise ActionFailed(
            f"SSH barrier reaches max retry count. Failed instances: {failed} Exit...",
            "rendezvous_failure", code=_EXIT_CODE,
        )  # fmt: skip
    job.log(f"[INFO] SSH barrier: reached all {len(waiting.blocks)} other tasks in {time.monotonic() - start:.1f} s")


async def _reach(waiting: Waiting, name: str) -> None:
    """Try until a task is reached, soon at first, or until it has come by itself."""
    delay, next_try = _FIRST_DELAY_SEC, 0.0
    while not os.path.exists(f"{waiting.seen}/{name}"):
        if time.monotonic() >= next_try:
            async with waiting.free:
                reason = await _try(waiting, name)
            if reason is None:
                break
            waiting.reasons[name] = reason
            next_try = time.monotonic() + delay
            delay = min(2 * delay, _LONGEST_DELAY_SEC)
        await asyncio.sleep(_LOOK_SEC)
    del waiting.reasons[name]


async def _try(waiting: Waiting, name: str) -> str | None:
    """Leave the own name in a task. None if that worked, else why not."""
    try:
        async with asyncio.timeout(_TRY_SEC):
            target = configuration.read(Destination(name), waiting.blocks[name], ())
            async with await connection.connect(target, ()) as connected:
                code = (await connected.run(_LEAVE.format(name=waiting.own), encoding=None)).exit_status
    except TimeoutError:
        return f"no answer in {_TRY_SEC} s"
    except (SshFailed, UsageError, OSError, asyncssh.Error) as error:
        return str(error).replace("\n", "; ")
    return None if code == 0 else f"'exit 0' ended with {code}"


def _list(names: Mapping[str, str]) -> str:
    shown = [f"{name} ({reason})" for name, reason in list(names.items())[:5]]
    return ", ".join(shown) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
