"""The command line of the supervisor."""

from __future__ import annotations

import os

from kedge import contract
from kedge.contract import TaskSpec
from kedge.light import json
from kedge.light.types import Sequence
from kedge.runtime import attempt
from kedge.runtime.files import read_file
from kedge.runtime.process import signals
from kedge.runtime.session import SupervisorOptions

USAGE = (
    "usage: python -I -S .../kedge/runtime SPEC_FILE [--status FD|FIFO] [--gate FIFO] [--hold FD,...] [--keep FD,...]"
    " [--open-files N] [--site DIR] [--control FIFO] [--wait-spec]"
)


def main(argv: Sequence[str]) -> int:
    """Run the attempt that SPEC_FILE describes and return the `exit_code` of its report. Return RUNTIME_BROKE when the
    arguments or the file are wrong."""
    _fill_standard_descriptors()
    try:
        options = parse(argv)
        if options.wait_spec and (code := _wait_for_spec(options)) is not None:
            return code
        spec = read_spec(options.spec_file)
    except ValueError as error:
        os.write(2, f"kedge runtime: {error}\n".encode(errors="surrogateescape"))
        return contract.RUNTIME_BROKE
    return attempt.run(spec, options)


def parse(argv: Sequence[str]) -> SupervisorOptions:
    """Parse the arguments. Children do not inherit the descriptors named there. ValueError describes what is wrong."""
    wait_spec = "--wait-spec" in argv
    argv = [each for each in argv if each != "--wait-spec"]
    if len(argv) % 2 == 0:
        raise ValueError(USAGE)
    options = SupervisorOptions(argv[0], wait_spec=wait_spec)
    for name, value in zip(argv[1::2], argv[2::2], strict=True):
        options = _with(options, name, value)
    status = [] if options.status is None else [options.status]
    for fd in (*options.hold, *options.keep, *status):
        _close_to_children(fd)
    return options


def read_spec(path: str) -> TaskSpec:
    """Read a TaskSpec. ValueError when the file cannot be read or is not one."""
    try:
        spec = TaskSpec.from_json(json.loads(read_file(path)))
        signals.by_name(spec.stop.signal)
        if not spec.workdir:
            spec = spec._replace(workdir=os.getcwd())
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path} is not a task specification: {type(error).__name__}: {error}") from error
    return spec


def _wait_for_spec(options: SupervisorOptions) -> int | None:
    """Wait until the file has been written. Returns an exit code if the task is to be stopped before."""
    from kedge.runtime.spec_wait import wait

    return wait(options.spec_file, options.control, options.status)


def _with(options: SupervisorOptions, name: str, value: str) -> SupervisorOptions:
    if name == "--site":
        return options._replace(site=value)
    if name == "--control":
        from kedge.runtime.control import open_fifo

        return options._replace(control=open_fifo(value))
    if name == "--gate":
        return options._replace(gate=_open_fifo(value, os.O_RDONLY))
    if name == "--status" and value.startswith("/"):
        # A supervisor that waits may start before its reader. It then reads there, too, so that nothing gets lost.
        return options._replace(status=_open_fifo(value, os.O_RDWR if options.wait_spec else os.O_WRONLY))
    try:
        numbers = tuple(int(number) for number in value.split(",") if number)
    except ValueError as error:
        raise ValueError(f"{name} {value}: not a list of numbers\n{USAGE}") from error
    match name:
        case "--hold":
            return options._replace(hold=numbers)
        case "--keep":
            return options._replace(keep=numbers)
        case "--status" if len(numbers) == 1:
            return options._replace(status=numbers[0])
        case "--open-files" if len(numbers) == 1:
            return options._replace(open_files=numbers[0])
    raise ValueError(f"unknown option {name} {value}\n{USAGE}")


def _open_fifo(path: str, mode: int) -> int | None:
    """Open a FIFO without waiting for the other end. None when it does not exist or (for writing) nobody reads it."""
    try:
        return os.open(path, mode | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None


def _close_to_children(fd: int) -> None:
    try:
        os.set_inheritable(fd, False)
    except OSError as error:
        raise ValueError(f"descriptor {fd} is not open") from error


def _fill_standard_descriptors() -> None:
    """Open /dev/null in place of a closed stdin, stdout or stderr, whose numbers the next opened files would take."""
    while (fd := os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)) <= 2:
        continue
    os.close(fd)
