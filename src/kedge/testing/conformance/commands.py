"""How a command runs and ends."""

from __future__ import annotations

from kedge import contract
from kedge.errors import EXIT_FAILED
from kedge.states import State
from kedge.testing.conformance.case import NO_RETRY, ConformanceCase

BEHAVIOURS = {
    "a command that succeeds": ConformanceCase(
        "echo hello",
        logs="hello\n",
        report={"reason": contract.SUCCEEDED, "exit_code": 0, "user_exit_code": 0},
        states={"worker:0": State.SUCCEEDED},
        prints=(r"^worker:0 \| hello$", r"^worker:0 +succeeded +1 +0 ", "Succeeded"),
        attempts=1,
    ),
    "commands share one shell": ConformanceCase(["cd /; x=1", "export y=2", "echo $x $y $PWD"], logs="1 2 /\n"),
    "the first command that fails ends the task": ConformanceCase(
        ["echo before", "false", "echo after"], code=1, logs="before\n"
    ),
    "a failure within a pipeline ends the task": ConformanceCase(
        ["false | cat", "echo after"], code=EXIT_FAILED, logs=""
    ),
    "the user's exit code is kept and the container's code is OpenPAI's": ConformanceCase(
        "exit 7",
        code=EXIT_FAILED,
        report={"reason": contract.COMMAND_FAILED, "user_exit_code": 7, "exit_code": 255},
        states={"worker:0": State.FAILED},
        prints=(
            r"^worker:0 +failed +1 +7 ",
            "worker:0: the command exited with code 7; not retried: jobRetryCount is 0",
        ),
    ),
    "an unset variable ends the task": ConformanceCase(
        ["echo $NOTHING_LIKE_THIS", "echo after"],
        code=EXIT_FAILED,
        stdout=b"",
        report={"reason": contract.COMMAND_FAILED},
    ),
    "a missing program": ConformanceCase(
        "nothing-like-this", code=EXIT_FAILED, report={"reason": contract.COMMAND_FAILED, "user_exit_code": 127}
    ),
    "a program that is not executable": ConformanceCase(
        "touch $PAI_LOG_DIR/program; $PAI_LOG_DIR/program",
        code=EXIT_FAILED,
        report={"reason": contract.COMMAND_FAILED, "user_exit_code": 126},
    ),
    "an unknown option of the shell": ConformanceCase(
        ["set -o nothing-like-this", "echo after"],
        code=EXIT_FAILED,
        stdout=b"",
        report={"reason": contract.COMMAND_FAILED},
    ),
    "a command that kills itself": ConformanceCase(
        "kill -KILL $$",
        keys={"extras": NO_RETRY},
        code=EXIT_FAILED,
        report={"reason": contract.COMMAND_KILLED, "user_exit_code": 137, "stopped_by": None},
    ),
    "a command that ends with a memory error": ConformanceCase(
        "kill -SEGV $$", code=EXIT_FAILED, report={"reason": contract.COMMAND_KILLED, "user_exit_code": 139}
    ),
    "a task that stops its own supervisor was not stopped by kedge": ConformanceCase(
        "kill -TERM $PPID; sleep 1000",
        keys={"extras": NO_RETRY},
        code=EXIT_FAILED,
        report={"stopped_by": "TERM"},
        prints=("sigterm_unattributed",),
    ),
    "standard input is empty": ConformanceCase("cat; echo end", logs="end\n"),
    "background processes end with their task": ConformanceCase(
        ["setsid sleep 1000 > /dev/null 2>&1 &", "(nohup sleep 1001 > /dev/null 2>&1 &)", "echo done"], logs="done\n"
    ),
}
