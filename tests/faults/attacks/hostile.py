"""Tasks that plant links, FIFOs, folders and garbage where kedge reads and writes."""

from __future__ import annotations

from .. import work
from ..parts import CONTROLLER, TASK
from ..rounds import Attack
from ..scene import Scene

_NAMES = (
    "report.json", "events.jsonl", "pai-termination-log", "runtime.log", "user-all", "user-stdout/current",
    "user-stderr", "spec.json", "error.json", "supervisor.log", "work", "pai", "pai/runtime.d", ".report.json.new",
    "report.json.partial",
)  # fmt: skip
_RUN_NAMES = (
    "events.jsonl",
    "run.json",
    "plan.json",
    "report.json",
    "report.md",
    "peers.json",
    "lock",
    "job.yaml",
    ".reserve",
)
_GARBAGE = (
    r"printf '\000\377\n'", "echo '{'", "echo '[]'", "echo null", "echo '{\"event\": 1}'", "echo '{\"event\": []}'",
    "echo '{\"event\": \"finished\"}'", "echo '{\"event\": \"starting\"}'", "echo '{\"event\": \"job-completed\"}'",
    "echo '{\"event\": \"starting\", \"pid\": 1, \"start_time\": -1}'",
    "echo '{\"event\": \"starting\", \"pid\": \"x\", \"start_time\": {}}'",
    "echo '{\"event\": \"task-launched\", \"role\": [], \"index\": {}}'",
    "echo '{\"event\": \"job-submitted\", \"roles\": 7}'", "echo '{\"event\": \"note\", \"text\": \"\\ud800\"}'",
    "head -c 3000000 /dev/zero", "head -c 3000000 /dev/zero | tr '\\0' '['", "echo 1e999",
    "echo '{\"version\": 1e400}'",
)  # fmt: skip
_PLANTS = (
    "mkfifo {0}", "ln -s /dev/zero {0}", "ln -s /dev/full {0}", "ln -s {0} {0}", "ln -s ../.. {0}", "mkdir -p {0}/x",
    "ln -s /nonexistent/file {0}", "touch {0}; chmod 000 {0}", "true", "mknod {0} c 1 5",
    "ln -s /proc/self/mem {0}", "truncate -s 300M {0}",
)  # fmt: skip
_SHOUTS = (
    "head -c 30000000 /dev/zero | tr '\\0' x",
    "head -c 300000 /dev/urandom",
    "printf '\\033[2J\\033]0;title\\007\\033[1A'; printf '\\r\\n\\r'; printf 'worker:0 | forged\\n'",
    "seq 100000", "yes '[' | head -c 300000 | tr -d '\\n'",
)  # fmt: skip
_BRIEFLY = {"stop": {"graceSec": 0.5}, "retry": {"maxTransient": 1, "backoffSec": 0.1}}


def _plant(scene: Scene, names: tuple[str, ...]) -> list[str]:
    """Shell lines that replace files by something else."""
    chance, lines = scene.random, []
    for _ in range(chance.randint(1, 3)):
        name = chance.choice(names)
        if chance.random() < 0.5:
            lines.append(f"{chance.choice(_GARBAGE)} {chance.choice(('>', '>>'))} {name}")
        else:
            lines += [f"rm -rf {name}", chance.choice(_PLANTS).format(name)]
    return [f"{{ {line}; }} 2> /dev/null || :" for line in lines]


def _job(scene: Scene, folder: str, names: tuple[str, ...]) -> None:
    ends = ("true", "exit 3", "kill -9 $$", "sleep 0.5")
    lines = [f"cd {folder}", "sleep 0.1", *_plant(scene, names), scene.random.choice(ends)]
    scene("run", "-q", scene.kedge.job("echo another run", name="other"))
    scene.start("run", *work.options(scene), scene.kedge.job(lines, extras={"kedge": _BRIEFLY}))
    scene.await_parts(CONTROLLER)
    scene.pause(1.0)
    for _ in range(scene.random.randint(0, 2)):
        scene(
            *scene.random.choice(
                (("ps",), ("show", "job"), ("logs", "job"), ("stop", "job"), ("show", "--json", "job"))
            )
        )


def _own_folder(scene: Scene) -> None:
    """A task damages its own folder, in which its supervisor works."""
    _job(scene, "$PAI_LOG_DIR", _NAMES)


def _run_folder(scene: Scene) -> None:
    """A task damages the files of the run, which belong to its user."""
    _job(scene, "$PAI_LOG_DIR/../..", _RUN_NAMES)
    scene("ps")
    if (shown := scene("show", "other")).code:
        scene.broken.append(f"another run cannot be shown any more: {shown.said}")


def _shouts(scene: Scene) -> None:
    """A task prints control characters, endless lines and other hostile output."""
    lines = scene.random.choices(_SHOUTS, k=2)
    scene.start("run", *work.options(scene), scene.kedge.job([*lines, *work.steps(scene.random)]))
    scene.await_parts(TASK)
    scene.pause(1.0)
    for run in scene.runs():
        scene(*scene.random.choice((("logs",), ("show",), ("stop",))), run.id)


# What a task damages itself need not survive or be valid; the invariants still hold for the files of others.
_OWN = frozenset({"facts stay", "documents are whole", "lines are kept"})
_WHOLE_RUN = _OWN | {
    "every run ends once", "the end is shown", "exit codes agree", "reports are written", "locks are free",
    "rm leaves nothing",
}  # fmt: skip
ATTACKS = (
    Attack("tasks that damage their folder", _own_folder, _OWN, share=20),
    Attack("tasks that damage their run", _run_folder, _WHOLE_RUN, share=15),
    Attack("output that is no text", _shouts, frozenset({"lines are kept"})),
)
