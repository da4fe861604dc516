"""The `kedge` command: finds the subcommand, and turns every error into one message and an exit code."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import traceback
from contextlib import suppress
from typing import NoReturn

import click

from kedge import __version__, lazy_modules
from kedge.cli import streams
from kedge.cli.view.problems import show_problems
from kedge.errors import (
    EXIT_BUG,
    EXIT_INPUT,
    EXIT_INTERRUPTED,
    EXIT_OK,
    WARNING,
    InputError,
    KedgeError,
    Problem,
    Unreachable,
)  # fmt: skip
from kedge.shortages import explained

# Every command is `command` in the module of its name, loaded on use. The order and the texts are those of
# `kedge --help`: taking the texts from the commands themselves would load them all.
COMMANDS = {
    "run": "Run a job and show its output until it ends.",
    "validate": "Check a job file and report every problem at once.",
    "plan": "Show what will run: roles, resources, policies, commands.",
    "lock": "Pin the external inputs of a job in its lock file.",
    "rerun": "Run the job of an earlier run again, from its own copy.",
    "attach": "Show the output of an active run again until it ends.",
    "ps": "List runs, newest first.",
    "show": "Show one run: its tasks, verdict and logs.",
    "logs": "Print the logs of tasks.",
    "outputs": "List what the tasks of a run have written for its user.",
    "cp": "Copy files and folders out of a run, or into it.",
    "exec": "Run a program, or a shell, beside a running task.",
    "ssh": "Connect to a running task by ssh, with the key of its job.",
    "wait": "Wait until a run ends and print its state.",
    "stop": "Stop a run gracefully.",
    "release": "End the hold of a failed task.",
    "rm": "Delete ended runs with their logs and outputs.",
    "diagnose": "Explain why a job failed, from its logs.",
    "rules": "List the rules that explain failures, or test a rule file.",
    "cache": "Show or prune what kedge caches for later jobs.",
    "bundle": "Build the runtime with its own Python, for any image.",
    "schema": "Print the JSON Schema of a job file, for editors.",
    "storages": "List the storages that your jobs may name.",
    "kubernetes": "Prepare namespaces of a Kubernetes cluster for jobs.",
    "config": "Show the settings of the site and the user, or check a file.",
    "completion": "Print a shell completion script.",
}


_COMPLETION_VARIABLE = "_KEDGE_COMPLETE"  # set by a shell that asks for completions


class LazyGroup(click.Group):
    """A group that imports only the command that is used, so that none pays for the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = lazy_modules.load_place(lazy_modules.COMMANDS[name])
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and args[0].endswith((".yaml", ".yml")):
            ctx.fail(f"no such command '{args[0]}'; did you mean 'kedge run {args[0]}'?")
        if args and args[0] not in COMMANDS and (near := _nearest(args[0])):
            ctx.fail(f"no such command '{args[0]}'; did you mean '{near}'?")
        return super().resolve_command(ctx, args)


def _nearest(name: str) -> str | None:
    import difflib  # slow to load, and needed only for an error

    return next(iter(difflib.get_close_matches(name, COMMANDS, n=1)), None)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="kedge", message="%(prog)s %(version)s")
def cli() -> None:
    """Run deep-learning jobs from one file: on this machine, on Slurm or on Kubernetes."""


def main() -> None:
    """Entry point; the only place that ends the process."""
    streams.open_missing()
    streams.protect()
    threading.excepthook = _report_thread_error
    code = _run()
    if (error := streams.flush()) and code == EXIT_OK:
        code = _unexpected(error)
    _end(code)


def _end(code: int) -> NoReturn:
    """End the process without what the interpreter does last, which is to take apart every module and to free what they
    hold: a fifth of `kedge validate`. With a thread left, or under a profiler, it ends as usual."""
    if threading.active_count() > 1 or sys.getprofile():
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # stdout was flushed before, so that its errors are known
            stream.flush()
    os._exit(code)


def _run() -> int:
    try:
        result = cli.main(prog_name="kedge", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return EXIT_INPUT
    except KedgeError as error:
        _show(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return EXIT_OK
    except SystemExit as error:
        # click and rich raise SystemExit(1) when the pipe is closed; completion always ends by SystemExit
        if error.code == 1 or _COMPLETION_VARIABLE in os.environ:
            return EXIT_OK
        return _bug(error)
    except Exception as error:
        return _unexpected(error)
    return result if isinstance(result, int) else EXIT_OK


def _unexpected(error: Exception) -> int:
    """Report an error that is not one of ours: a shortage of the machine, or a bug."""
    found = explained(error)
    if found is None:
        return _bug(error)
    error.__traceback__ = None  # frees what the frames hold: there may be too little memory for a message
    try:
        _show(found)
    except MemoryError:
        os.write(2, f"error: {found}\n".encode())
    return found.exit_code


def _bug(error: BaseException) -> int:
    traceback.print_exception(error)
    click.echo(f"\nThis is a bug in kedge {__version__}: please report it with the lines above.", err=True)
    return EXIT_BUG


def _report_thread_error(args: threading.ExceptHookArgs) -> None:
    """Report an error that ended a thread, such as the live view; the command continues."""
    if isinstance(args.exc_value, Exception):
        with suppress(OSError):
            _unexpected(args.exc_value)


def _show(error: KedgeError) -> None:
    problems = error.problems if isinstance(error, InputError | Unreachable) else (str(error),)
    show_problems(problems)
    warnings = sum(isinstance(problem, Problem) and problem.severity == WARNING for problem in problems)
    if len(problems) > 1:
        counts = (len(problems) - warnings, "error"), (warnings, "warning")
        click.echo(", ".join(f"{n} {what}{'s' * (n != 1)}" for n, what in counts if n), err=True)
