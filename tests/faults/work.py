"""Random jobs: small, quick, and with all features of jobs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from .scene import Scene

SECRET = "correct-horse-battery"
WRITTEN = "written"  # a file in a task's folder: how many lines the task claims to have printed

# say N: prints N more lines and counts each in WRITTEN. A line is one write, so only kedge could tear it.
_SAY = """\
n=0
say() {
    local to=$((n + $1))
    while [ $n -lt $to ]; do
        n=$((n + 1)); echo "line $n"; echo $n >> $PAI_LOG_DIR/written
    done
}"""
_LASTING = 300  # seconds: longer than any round

_STEPS = (
    "say 1", "say 20", "say 300", "sleep 0.1", "sleep 0.3", "sleep 0.6",
    "echo complaint >&2",
    "sh -c 'sleep 0.2; true'",
    "(sleep 0.3; echo aside) & wait",
    f"setsid sleep {_LASTING} &",
    f"(setsid nohup sleep {_LASTING} > /dev/null 2>&1 &)",
    f"setsid sh -c 'trap \"\" TERM HUP; sleep {_LASTING}' &",
    f"sh -c 'sleep {_LASTING} & sleep {_LASTING}' &",
    f"env -i setsid $(command -v sleep) {_LASTING} &",
    f"(env -i setsid setsid $(command -v sleep) {_LASTING} &)",
    "trap '' TERM",
    "trap 'echo farewell; exit 0' TERM",
)  # fmt: skip
_ENDS = ("true",) * 4 + (
    "exit 3",
    "kill -9 $$",
    "kill -TERM $$",
    f"sleep {_LASTING}",
    f"say 2; sleep {_LASTING}; say 2",
)
_HOOKS = (
    "true",
    "echo hook",
    "sleep 0.2",
    "sleep 0.5",
    f"setsid sleep {_LASTING} &",
    "exit 4",
    "trap '' TERM; sleep 0.3",
)
_SLOW = f"""\
#!/bin/sh
setsid sleep {_LASTING} > /dev/null 2>&1 &
sleep 0.3
kill $!
echo '{{"callbacks": [{{"event": "taskStarts", "commands": ["echo plugin"]}}]}}'
"""
_EVENTS = ("taskStarts", "taskSucceeds", "taskFails", "containerExit", "beforeStop")


def job(scene: Scene, name: str = "job", ends: tuple[str, ...] = _ENDS, largest: int = 2) -> Path:
    """Write a random job file with at most `largest` roles of at most as many tasks. `ends` are possible last lines of
    its commands."""
    chance = scene.random
    roles = {f"r{number}": _role(chance, ends, largest) for number in range(chance.randint(1, largest))}
    hooks = [_hook(chance, f"h{number}") for number in range(chance.choice((0, 0, 1, 2)))]
    for role in roles.values():
        role["prerequisites"] = [hook["name"] for hook in hooks if chance.random() < 0.7]
    plugin = [_plugin(scene)] if chance.random() < 0.15 else []
    for role in roles.values():
        role["prerequisites"] += [prerequisite["name"] for prerequisite in plugin]
    return scene.kedge.job("true", name=name, roles=roles, prerequisites=[*hooks, *plugin], **_keys(chance))


def options(scene: Scene) -> list[str]:
    """Random additional options for `kedge run`."""
    chance, given = scene.random, []
    if chance.random() < 0.3:
        file = scene.folder / "secret"
        file.write_text(SECRET)
        given += ["--secret", f"token=@{file}"]
    given += chance.choice(([], [], ["-d"], ["--json"], ["-q"]))
    return given


def endless(scene: Scene) -> Path:
    """Write a job that ends only when it is stopped."""
    return job(scene, ends=(f"sleep {_LASTING}",))


def steps(chance: random.Random) -> list[str]:
    """Random shell lines that do what tasks do."""
    return [_SAY, *chance.choices(_STEPS, k=chance.randint(1, 5))]


def _plugin(scene: Scene) -> dict[str, Any]:
    """A prerequisite with an executable plugin, which takes a while and may be killed before it cleans up."""
    programs = scene.folder / "bin"
    programs.mkdir()
    (programs / "kedge-plugin-slow").write_text(_SLOW)
    (programs / "kedge-plugin-slow").chmod(0o755)
    scene.kedge.environment["PATH"] = f"{programs}:{scene.kedge.environment['PATH']}"
    return {"name": "slow", "type": "script", "plugin": "slow"}


def _role(chance: random.Random, ends: tuple[str, ...], largest: int) -> dict[str, Any]:
    ports = {"web": chance.randint(1, 3)} if chance.random() < 0.4 else {}
    role: dict[str, Any] = {
        "instances": chance.randint(1, largest),
        "commands": [*steps(chance), chance.choice(ends)],
        "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0, **({"ports": ports} if ports else {})},
    }
    if chance.random() < 0.3:
        role["taskRetryCount"] = 1
    if chance.random() < 0.3:
        role["completion"] = {
            "minFailedInstances": chance.choice((1, -1)),
            "minSucceededInstances": chance.choice((1, -1)),
        }
    return role


def _hook(chance: random.Random, name: str) -> dict[str, Any]:
    events = chance.sample(_EVENTS, chance.randint(1, 3))
    callbacks = [{"event": event, "commands": [chance.choice(_HOOKS)]} for event in events]
    return {"name": name, "type": "script", "plugin": "cmd", "callbacks": callbacks}


def _keys(chance: random.Random) -> dict[str, Any]:
    stop = {"graceSec": chance.choice((0.2, 0.5, 1.0)), "signal": chance.choice(("TERM", "TERM", "INT", "KILL"))}
    stop["target"] = chance.choice(("group", "group", "command"))
    retry = {"maxTransient": chance.choice((0, 1)), "backoffSec": 0.1}
    kedge = {"stop": stop, "retry": retry, **_limits(chance)}
    extras = {"gangAllocation": chance.random() < 0.7, "kedge": kedge}
    return {"extras": extras, "jobRetryCount": chance.choice((0, 0, 1)), "secrets": {"token": "kept apart"}}


def _limits(chance: random.Random) -> dict[str, Any]:
    """Time limits that pass in some rounds."""
    keys = chance.sample(("timeLimit", "attemptTimeLimit"), chance.choice((0, 0, 1, 2)))
    return {key: chance.choice((1.0, 2.0, _LASTING)) for key in keys} | ({"warnBefore": 0.5} if keys else {})
