"""kedge exec: run a program beside a running task."""

from __future__ import annotations

import os

import click

from kedge.cli import options
from kedge.engines.base import ExecRequest
from kedge.errors import InputError
from kedge.jobs import exec as jobs_exec
from kedge.jobs import runs


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("-i", "--interactive", is_flag=True, help="The program reads this command's input.")
@click.option("-t", "--tty", is_flag=True, help="The program gets a terminal. It follows the size of yours.")
@options.job
@options.task
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="[-- PROGRAM [ARGUMENT]...]")
def command(job: str, task: str, program: tuple[str, ...], interactive: bool, tty: bool) -> int:
    """Run a program, or a shell, beside a running task.

    It has the environment and the working directory of the task, and runs in its container. Without a program, it is
    the task's shell on your terminal, as with -it. The program ends with the task at the latest. The
    exit code is the program's.
    """
    argv = program[1:] if program[:1] == ("--",) else program
    if not argv:
        interactive, tty = True, tty or os.isatty(0)
    if tty and not os.isatty(0):
        raise InputError("--tty: the input of this command is not a terminal; leave out -t")
    return jobs_exec.run(runs.find(job), task, ExecRequest(argv, interactive, tty))
