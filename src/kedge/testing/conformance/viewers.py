"""What goes on beside an active run: viewers that go and come back, and files that are copied out and in."""

from __future__ import annotations

import signal
from collections.abc import Callable

from kedge.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from kedge.testing.command import Kedge
from kedge.testing.conformance.case import same

_WAITS = 'echo ready; until [ -s "$KEDGE_OUTPUT_DIR/in/flag" ]; do sleep 0.05; done; cat "$KEDGE_OUTPUT_DIR/in/flag"'


def _let_go(kedge: Kedge) -> None:
    """Copy the file into the task that it waits for. Nobody else may read the original."""
    folder = kedge.folder / "in"
    folder.mkdir(mode=0o700)
    (folder / "flag").write_text("go\n")
    (folder / "flag").chmod(0o600)
    kedge("cp", "in", "job/worker-0:")


def detach_and_attach(kedge: Kedge) -> None:
    first = kedge.start("run", kedge.job(f"{_WAITS}; exit 3"))
    kedge.wait_for_output("ready")
    first.send_signal(signal.SIGQUIT)
    assert "continues in the background" in kedge.finish(first, EXIT_OK)
    second = kedge.start("attach", "job")
    assert second.stdout
    same("the last line so far", second.stdout.readline(), "worker:0 | ready\n")
    _let_go(kedge)
    same("the next line", second.stdout.readline(), "worker:0 | go\n")
    kedge.finish(second, EXIT_FAILED)
    assert "exited with code 3" in kedge("attach", "job", code=EXIT_FAILED).stdout
    assert kedge.leftovers() == []


def stop_by_a_later_viewer(kedge: Kedge) -> None:
    kedge("run", "-d", kedge.job("echo ready; sleep 1000"))
    kedge.wait_for_output("ready")
    viewer = kedge.start("attach", "job")
    assert viewer.stdout
    viewer.stdout.readline()
    viewer.send_signal(signal.SIGINT)
    kedge.finish(viewer, EXIT_INTERRUPTED)
    same("wait", kedge("wait", "job", code=EXIT_FAILED).stdout, "stopped by Ctrl-C\n")
    assert kedge.leftovers() == []


def copies(kedge: Kedge) -> None:
    commands = ['echo result > "$KEDGE_OUTPUT_DIR/out"', _WAITS, 'cat "$KEDGE_JOB_DIR/all"']
    process = kedge.start("run", kedge.job(commands))
    kedge.wait_for_output("ready")
    kedge("cp", "job/worker-0:out", kedge.folder)
    same("the file of a running task", (kedge.folder / "out").read_text(), "result\n")
    (kedge.folder / "all").write_text("for all\n")
    kedge("cp", "all", "job:")
    _let_go(kedge)
    printed = kedge.finish(process, EXIT_OK)
    assert "worker:0  out (7 B), in/flag (3 B)" in printed, printed
    same("what the task has read", kedge.task_log(), "ready\ngo\nfor all\n")
    kedge("cp", "job/worker-0:", "all-of-it")
    same("the files of an ended task", (kedge.folder / "all-of-it" / "in" / "flag").read_text(), "go\n")


BEHAVIOURS: dict[str, Callable[[Kedge], None]] = {
    "a viewer detaches, and a later one ends as the job does": detach_and_attach,
    "a viewer that came later can stop the job": stop_by_a_later_viewer,
    "files are copied out of a running task, and into it": copies,
}
