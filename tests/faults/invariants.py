"""What must hold after any attack. Each invariant is a function that yields what breaks it; its name is its key."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from kedge.claims.locks import Claims
from kedge.contract import CURRENT, REPORT_FILE, SPEC_FILE, USER_STDOUT
from kedge.errors import EXIT_CANNOT_RUN, EXIT_FAILED, EXIT_INPUT, EXIT_INTERRUPTED, EXIT_OK
from kedge.runs import controller_lock, liveness
from kedge.runs.job_events import JobEvent
from kedge.states import FINAL, State

from .parts import COMMAND, CONTROLLER, ENGINE_SERVICE, KEEPER, SUPERVISOR, Part
from .scene import NO_ROOM, Command, Scene, content
from .work import WRITTEN

_DOCUMENTED = frozenset({EXIT_OK, EXIT_FAILED, EXIT_INPUT, EXIT_CANNOT_RUN, EXIT_INTERRUPTED})
_OF_STATE: dict[str, tuple[int | None, ...]] = {
    State.SUCCEEDED: (EXIT_OK,),
    State.FAILED: (EXIT_FAILED, EXIT_CANNOT_RUN),
    State.STOPPED: (EXIT_FAILED, EXIT_INTERRUPTED),
}
_BUG = re.compile(r"Traceback \(most recent call last\)|bug in kedge|kedge failed:")
_LINE = re.compile(r"line (\d+)")
_SOON_SEC = 15.0  # for what the kernel, or the container engine, is about to finish
_DAMAGED_BY_NOBODY = ("run.json", "plan.json", "report.json", "peers.json", SPEC_FILE)


def commands_answer(scene: Scene) -> Iterator[str]:
    """Every command ends."""
    for command in scene.commands:
        if command.hung:
            yield f"{command} hangs; it said {command.said[-300:]!r}"


def codes_are_documented(scene: Scene) -> Iterator[str]:
    """A command ends with a code that docs/running.md has, or by the signal that it was sent."""
    for command in scene.commands:
        code = command.code
        if code not in _DOCUMENTED and not command.hung and not (command.struck and code is not None and code < 0):
            yield f"{command} ended with {code}: {command.said[-500:]}"


def nobody_speaks_of_bugs(scene: Scene) -> Iterator[str]:
    """No traceback and no bug is shown, or kept in a log of kedge's own."""
    for command in scene.commands:
        if _BUG.search(command.said):
            yield f"{command} said {command.said[-1500:]}"
    for path in scene.kedge.runs():
        for log in (
            *path.glob("*.log"),
            *path.glob("attempt-*/*/supervisor.log"),
            *path.glob("attempt-*/*/runtime.log"),
        ):
            if (text := _text(log)) and _BUG.search(text):
                yield f"{log}: {text[-1500:]}"
    for run in scene.runs():
        for event in scene.events(run):
            if _BUG.search(str(event.get("text"))):
                yield f"{run.events}: {event}"


def every_run_ends_once(scene: Scene) -> Iterator[str]:
    """There is exactly one end in a run's log."""
    for run in scene.runs():
        ends = [event for event in scene.events(run) if event.get("event") == JobEvent.JOB_COMPLETED]
        if len(ends) != 1:
            yield f"{run.id} has {len(ends)} ends: {ends}"


def the_end_is_shown(scene: Scene) -> Iterator[str]:
    """`kedge show` tells the end that the log has, of every task too."""
    for run in scene.runs():
        shown = scene("show", "--json", run.id)
        if shown.code != EXIT_OK:
            yield f"{shown} ended with {shown.code}: {shown.said[-500:]}"
            continue
        told, state = json.loads(shown.out), scene.state(run)
        open_tasks = [task for task in told["tasks"] if task["state"] not in FINAL]
        if told["state"] != state or state not in FINAL or open_tasks:
            yield f"{run.id} is {state} by its log and {told['state']} by kedge show, open tasks: {open_tasks}"


def exit_codes_agree(scene: Scene) -> Iterator[str]:
    """The exit code of a `kedge run` in the foreground says how the job ended, unless the command itself was harmed."""
    for command in scene.commands:
        if command.args[0] == "run" and "-d" not in command.args and not command.struck and not command.hung:
            yield from _disagreement(scene, command)


def nothing_runs(scene: Scene) -> Iterator[str]:
    """No process of the job is left. The service of a container engine ends by itself when nobody asks it any more, and
    with it the keeper of a controller that was killed."""
    if left := _until_none(lambda: _left(scene)):
        yield f"still alive: {'; '.join(map(str, left))}"


def facts_stay(scene: Scene) -> Iterator[str]:
    """No event and no report that was there once is gone or has changed."""
    scene.observe()
    yield from scene.broken


def documents_are_whole(scene: Scene) -> Iterator[str]:
    """What kedge writes as JSON is there as a whole, or not at all."""
    for run in scene.runs():
        for name in _DAMAGED_BY_NOBODY:
            for file in (
                *run.path.glob(name),
                *run.path.glob(f"attempt-*/{name}"),
                *run.path.glob(f"attempt-*/*/{name}"),
            ):
                try:
                    json.loads(file.read_bytes())
                except ValueError as error:
                    yield f"{file}: {error}"


def reports_are_written(scene: Scene) -> Iterator[str]:
    """A run that has ended has a report that says how; where its controller was killed, or had no room for that, after
    the next stop."""
    for run in scene.runs():
        if not (run.path / REPORT_FILE).exists() and scene.struck & {CONTROLLER, COMMAND, NO_ROOM}:
            scene("stop", run.id)
        try:
            told = json.loads((run.path / REPORT_FILE).read_bytes())["state"]
        except (OSError, ValueError, KeyError) as error:
            yield f"{run.path}/{REPORT_FILE}: {error!r}; its state is {scene.state(run)}"
        else:
            if told != scene.state(run):
                yield f"{run.path}/{REPORT_FILE} says {told}, the log {scene.state(run)}"


def lines_are_kept(scene: Scene) -> Iterator[str]:
    """A log has every line that its task had said, in order, and none is torn. What was in a pipe when its reader, the
    supervisor, was killed is gone."""
    killed = SUPERVISOR in scene.struck
    for folder in scene.kedge.jobs.glob("*/attempt-*/*-*"):
        lines = _text(folder / USER_STDOUT / CURRENT).split("\n")
        last, numbers = lines.pop(), [int(found[1]) for line in lines if (found := _LINE.fullmatch(line))]
        written = _text(folder / WRITTEN).count("\n")
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"{folder}: lines are missing or out of order: {numbers[:5]} … {numbers[-5:]}"
        if (last or len(numbers) < written) and not killed:
            yield f"{folder}: its log has {len(numbers)} lines of at least {written}, and ends with {last[-100:]!r}"
        if torn := [line for line in lines if "line" in line and not _LINE.fullmatch(line)]:
            yield f"{folder}: torn lines: {torn[:3]}"


def locks_are_free(scene: Scene) -> Iterator[str]:
    """The lock of every run is free, and so are the ports of its tasks. Those of containers are not this machine's."""
    for run in scene.runs():
        if liveness.is_controlled(run):
            yield f"{run.lock} is held by {controller_lock.owner(run.lock)}"
    if scene.kedge.engine != "container" and (
        taken := _until_none(lambda: [port for port in _ports(scene) if not _free(port)])
    ):
        yield f"ports are still taken: {taken}"


def secrets_are_gone(scene: Scene) -> Iterator[str]:
    """The files with the secrets' values are removed."""
    for run in scene.kedge.runs():
        for folder in (Path(f"/dev/shm/kedge-{os.getuid()}-{run.name}"), run / "secrets"):
            if folder.exists():
                yield f"{folder} is left"


def containers_are_gone(scene: Scene) -> Iterator[str]:
    """No container and no network of the job is left."""
    if scene.kedge.engine == "container" and (left := _until_none(lambda: _of_engine(scene))):
        yield f"left in the container engine: {left}"


def rm_leaves_nothing(scene: Scene) -> Iterator[str]:
    """`kedge rm` deletes everything of the runs."""
    ids = [run.id for run in scene.runs()]
    if ids and (done := scene("rm", *ids)).code != EXIT_OK:
        yield f"{done} ended with {done.code}: {done.said[-500:]}"
    if left := [path for path in scene.kedge.runs() if path.name in ids]:
        yield f"kedge rm has left {left}"


# In this order: the last one deletes what the others look at.
INVARIANTS: dict[str, Callable[[Scene], Iterator[str]]] = {
    check.__name__.replace("_", " "): check
    for check in (
        nothing_runs, every_run_ends_once, the_end_is_shown, exit_codes_agree, facts_stay, documents_are_whole,
        reports_are_written, lines_are_kept, locks_are_free, secrets_are_gone, containers_are_gone, rm_leaves_nothing,
        commands_answer, codes_are_documented, nobody_speaks_of_bugs,
    )
}  # fmt: skip


def _left(scene: Scene) -> list[Part]:
    found = scene.parts()
    waits = any(part.kind == ENGINE_SERVICE for part in found)
    return [part for part in found if part.kind != ENGINE_SERVICE and not (waits and part.kind == KEEPER)]


def _disagreement(scene: Scene, command: Command) -> Iterator[str]:
    states = [scene.state(run) for run in scene.runs() if run.id in command.said]
    if len(states) == 1 and command.code not in _OF_STATE.get(states[0] or "", (command.code,)):
        yield f"{command} ended with {command.code}, and the job is {states[0]}"


def _ports(scene: Scene) -> list[int]:
    files = scene.kedge.jobs.glob(f"*/attempt-*/*/{SPEC_FILE}")
    found = (document.get("ports", {}) for file in files if isinstance(document := _document(file), dict))
    return [port for ports in found for numbers in ports.values() for port in numbers]


def _free(port: int) -> bool:
    claims = Claims()
    try:
        return claims.take(port)
    finally:
        claims.close()


def _of_engine(scene: Scene) -> list[str]:
    left = []
    for run in scene.kedge.runs():
        label = f"label=kedge.job={run.name}"
        for what in (("ps", "--all", "--format", "{{.Names}}"), ("network", "ls", "--format", "{{.Name}}")):
            done = subprocess.run(["podman", *what, "--filter", label], capture_output=True, text=True, check=True)
            left += done.stdout.split()
    return left


def _until_none(find: Callable[[], list[Any]]) -> list[Any]:
    end = time.monotonic() + _SOON_SEC
    while (left := find()) and time.monotonic() < end:
        time.sleep(0.02)
    return left


def _text(file: Path) -> str:
    return (content(file) or b"").decode(errors="replace")


def _document(file: Path) -> Any:
    """A JSON document, or an event; nothing where there is none."""
    with suppress(ValueError, RecursionError):
        return json.loads(_text(file))
    return {}
