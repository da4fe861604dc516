"""The program `ssh` of tasks whose image has no OpenSSH: the same options, exit codes and messages.

ssh [options] destination [command]
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence

import asyncssh

from kedge.runtime.ssh import command_line, configuration, connection, forwards, messages, session
from kedge.runtime.ssh.command_line import SshCommand, UsageError
from kedge.runtime.ssh.configuration import ClientConfiguration
from kedge.runtime.ssh.messages import OWN_FAILURE, SshFailed

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(arguments: Sequence[str]) -> int:
    """Run `ssh` and return its exit code: the remote command's, or OWN_FAILURE."""
    try:
        command = command_line.parse(arguments)
        if command is None:
            print(f"kedge's ssh client, asyncssh {asyncssh.__version__}", file=sys.stderr)
            return 0
        files = [] if command.config == "none" else [command.config] if command.config else None
        files = configuration.default_files() if files is None else files
        target = configuration.read(command.destination, command.options, files)
        show = messages.printer(command.log_file, lambda: str(target.get("LogLevel", "")).upper() == "QUIET")
    except (UsageError, OSError) as error:
        print(error, file=sys.stderr)
        return OWN_FAILURE
    _log(command.verbose)
    if target.get("ForkAfterAuthentication"):
        return _in_background(lambda ready: asyncio.run(_guarded(command, target, files, show, ready)))
    return asyncio.run(_guarded(command, target, files, show, lambda: None))


async def _guarded(
    command: SshCommand, target: ClientConfiguration, files: Sequence[str], show: Callable[[str], None],
    ready: Callable[[], None],
) -> int:  # fmt: skip
    """Run the command; a failure or a signal is shown."""
    work = asyncio.ensure_future(_run(command, target, files, show, ready))
    killed: list[signal.Signals] = []

    def end(by: signal.Signals) -> None:
        killed.append(by)
        work.cancel()

    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, end, number)
    try:
        return await work
    except asyncio.CancelledError:
        show(f"Killed by signal {killed[0]:d}.")
    except (SshFailed, UsageError) as error:
        show(str(error))
    except (OSError, asyncssh.Error) as error:
        show(str(messages.of_lost(error, target)))
    return OWN_FAILURE


async def _run(
    command: SshCommand, target: ClientConfiguration, files: Sequence[str], show: Callable[[str], None],
    ready: Callable[[], None],
) -> int:  # fmt: skip
    connected = await connection.connect(target, files)
    if command.stdio_forward:
        return await forwards.stdio(connected, command.stdio_forward)
    await forwards.start(connected, target, show)
    ready()
    if target.get("SessionType") == "none":
        await connected.wait_closed()
        return OWN_FAILURE
    code = await session.run(connected, target, command)
    connected.close()
    return code


def _in_background(run: Callable[[Callable[[], None]], int]) -> int:
    """Run in a process of its own, once the connection stands: -f. Return its exit code if it ends before."""
    reader, writer = os.pipe()
    if pid := os.fork():
        os.close(writer)
        if os.read(reader, 1):
            return 0
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)

    def ready() -> None:
        os.write(writer, b"\n")
        os.close(writer)

    return run(ready)


def _log(verbosity: int) -> None:
    """Show what asyncssh does, with -v; more with each further one."""
    if not verbosity:
        logging.getLogger("asyncssh").setLevel(logging.CRITICAL)
        return
    logging.basicConfig(level=logging.DEBUG, format=f"debug{min(verbosity, 3)}: %(message)s", stream=sys.stderr)
    asyncssh.set_log_level(logging.DEBUG)
    asyncssh.set_debug_level(min(verbosity, 2))
