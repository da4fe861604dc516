"""Runs a program of `kedge exec` beside a task of this machine."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from contextlib import suppress

from kedge import packed_runtime, processes
from kedge.contract import EVENTS_FILE, STARTING
from kedge.engines.base import ExecRequest, TaskAttempt
from kedge.engines.local import cgroups, process_record
from kedge.engines.machine import exec_terminal
from kedge.errors import CannotRun
from kedge.own_files import write_all
from kedge.processes import Process
from kedge.runs import events
from kedge.runs.folder import Run

_BLOCK = 1 << 16
_LINGER_SEC = 1.0  # for the output of what the program has left in the background


def run(run: Run, attempt: TaskAttempt, request: ExecRequest) -> int:
    """Run the program to its end and return its exit code, 128+n for signal n. It is ended when the task ends."""
    supervisor = _supervisor(run, attempt)
    with exec_terminal.signals_for(request) as signals:
        child = _start(run, supervisor, request)
        signals.send_to(child.pid)
        copies = _copies(child)
        if not _ends_before(child, supervisor):
            processes.kill_tree(child.pid)
        code = child.wait()
        for copy in copies:
            copy.join(_LINGER_SEC)
    return code if code >= 0 else 128 - code


def _supervisor(run: Run, attempt: TaskAttempt) -> Process:
    """The supervisor of a task attempt. CannotRun if it has ended."""
    folder = run.task(attempt.task.role, attempt.task.task_index, attempt.job_attempt, attempt.task_attempt)
    running = process_record.supervisors(run)
    for event in events.read(folder / EVENTS_FILE):
        if event.get("event") == STARTING:
            for process in running:
                if [process.pid, process.start_time] == [event.get("pid"), event.get("start_time")]:
                    return process
    raise CannotRun(f"no process of {attempt.task} runs on this machine: it has ended, or has not started yet")


def _start(run: Run, supervisor: Process, request: ExecRequest) -> subprocess.Popen[bytes]:
    start = packed_runtime.start_file(os.environ)
    argv = [sys.executable, "-I", "-S", str(start), "--join", str(supervisor.pid), *request.argv]
    # Without a terminal of its own, the program must not find that of this command.
    out, err = (subprocess.PIPE if not request.terminal and os.isatty(fd) else None for fd in (1, 2))
    child = subprocess.Popen(argv, stdin=None if request.stdin else subprocess.DEVNULL, stdout=out, stderr=err)
    if group := cgroups.find(process_record.group_name(run)):
        with suppress(OSError):  # so that it is found and ended with the run
            cgroups.add(group, child.pid)
    return child


def _copies(child: subprocess.Popen[bytes]) -> list[threading.Thread]:
    """Threads that copy the program's output to this command's."""
    threads = []
    for pipe, fd in ((child.stdout, 1), (child.stderr, 2)):
        if pipe:
            threads.append(threading.Thread(target=_copy, args=(pipe.fileno(), fd), daemon=True))
            threads[-1].start()
    return threads


def _copy(source: int, target: int) -> None:
    with suppress(OSError):  # nobody reads any more
        while data := os.read(source, _BLOCK):
            write_all(target, data)


def _ends_before(child: subprocess.Popen[bytes], supervisor: Process) -> bool:
    """Wait until the program or the task's supervisor ends. Whether the program did."""
    pidfds = [os.pidfd_open(child.pid)]
    try:
        with suppress(ProcessLookupError):
            pidfds.append(os.pidfd_open(supervisor.pid))
        if len(pidfds) < 2 or not processes.is_alive(supervisor):
            return False
        ended = select.select(pidfds, [], [])[0]
        return pidfds[0] in ended
    finally:
        for fd in pidfds:
            os.close(fd)
