"""kedge ssh: connect to a running task with the key of its job."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from kedge.cli import options
from kedge.errors import CannotRun
from kedge.jobs import runs, ssh


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--print-config", is_flag=True, help="Print a block for ~/.ssh/config instead, for editors and rsync.")
@options.job
@options.task
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTION]... [-- COMMAND [ARGUMENT]...]")
def command(job: str, task: str, words: tuple[str, ...], print_config: bool) -> int:
    """Connect to a running task by ssh, with the key of its job.

    The task needs the plugin ssh. Without a command, it is a shell. Options before `--` are those of ssh, such as
    `-L 8080:localhost:80`. The exit code is the command's, or 255 if the connection fails.
    """
    path, host = ssh.config(runs.find(job), task)
    if print_config:
        click.echo(Path(path).read_text(), nl=False)
        return 0
    argv = ssh.argv(path, host, words)
    sys.stdout.flush()
    try:
        os.execv(argv[0], argv)  # noqa: S606  (ssh takes the place of kedge, with its terminal)
    except OSError as error:
        raise CannotRun(f"{argv[0]} cannot be started: {error.strerror}") from None
