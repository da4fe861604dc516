"""Program on the machine of a user (ssh's ProxyCommand): its input and output are those of a port in a task's pod.

python -m kedge.engines.kubernetes.access.tunnel RUN_FOLDER ROLE INDEX JOB_ATTEMPT TASK_ATTEMPT HOST PORT
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
from contextlib import suppress
from pathlib import Path

from kedge.engines.base import Task, TaskAttempt
from kedge.engines.kubernetes.access.exec import pod_of
from kedge.engines.kubernetes.access.submitted import SubmittedRun
from kedge.engines.kubernetes.api import ExecStream
from kedge.engines.kubernetes.objects import pod_paths
from kedge.engines.kubernetes.objects.task_pod import APP
from kedge.engines.kubernetes.transport.exec_stream import STDOUT
from kedge.errors import EXIT_CANNOT_RUN, EXIT_OK, CannotRun
from kedge.own_files import write_all
from kedge.runs.folder import Run

CONNECT = (f"{pod_paths.BUNDLE}/shell/busybox", "nc")  # host and port follow
_BLOCK = 1 << 14


def command(run: Run, attempt: TaskAttempt, host: str, port: int) -> str:
    """The shell command that connects to a port of a task's pod."""
    numbers = (attempt.task.task_index, attempt.job_attempt, attempt.task_attempt)
    words = (str(run.path), attempt.task.role, *map(str, numbers), host, str(port))
    return shlex.join([sys.executable, "-I", "-m", "kedge.engines.kubernetes.access.tunnel", *words])


def main(argv: list[str]) -> int:
    """Connect, until one side ends."""
    folder, role, index, job_attempt, task_attempt, host, port = argv[1:]
    found = SubmittedRun(Run(Path(folder)))
    attempt = TaskAttempt(Task(role, int(index)), int(job_attempt), int(task_attempt))
    has_ended = threading.Event()  # ssh
    try:
        with found.api.exec(pod_of(found, attempt), APP, (*CONNECT, host, port), stdin=True) as stream:
            threading.Thread(target=_send, args=(stream, has_ended), daemon=True).start()
            while frame := stream.read():
                write_all(1 if frame.channel == STDOUT else 2, frame.data)
            return stream.exit_code or EXIT_OK
    except (CannotRun, OSError) as error:
        if has_ended.is_set():
            return EXIT_OK
        print(f"kedge: {error}", file=sys.stderr)
        return EXIT_CANNOT_RUN


def _send(stream: ExecStream, has_ended: threading.Event) -> None:
    with suppress(CannotRun, OSError):
        while data := os.read(0, _BLOCK):
            stream.write(data)
    has_ended.set()
    stream.close()


if __name__ == "__main__":
    code = main(sys.argv)
    sys.stdout.flush()
    os._exit(code)
