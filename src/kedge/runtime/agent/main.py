"""The command line of the agent, and its orders on stdin."""

from __future__ import annotations

import os
import sys

from kedge.light.contextlib import suppress
from kedge.light.types import Mapping, NamedTuple, Sequence
from kedge.link.launch import AgentOrders
from kedge.runtime.agent import keeper, node_folders
from kedge.runtime.agent.keeper import GIVEN_UP, AgentTask, say

USAGE = (
    "usage: agent --index-variable NAME --node-variable NAME [--site DIR] | --sweep | "
    "--end NAME[=VALUE,...]... | --pod --index N --node-variable NAME --orders-variable NAME --token-file PATH"
)
_SWEEP, _END, _POD = ["--sweep"], "--end", "--pod"
_LONGEST_ORDERS = 64 << 20  # bytes
_RUNTIME_FILE = "runtime.pyc"  # beside that of the agent, in a bundle


class AgentOptions(NamedTuple):
    """The parsed command line: the variables with the task's index in its role and with the node's name; and the option
    of supervisors of the same name, `site`."""

    index_variable: str = ""
    node_variable: str = ""
    site: str | None = None


def main(argv: Sequence[str]) -> int:
    """Read the orders from stdin and keep an agent running until it is told to finish. Returns 0 then, and GIVEN_UP
    when the arguments or the orders are wrong. Or remove what killed agents of this user have left on this node, or end
    tasks, see end_tasks."""
    if argv and argv[0] == _END:
        from kedge.runtime.agent import end_tasks  # agents do not need it

        return end_tasks.main(argv[1:])
    if argv and argv[0] == _POD:
        from kedge.runtime.agent import pod

        return pod.main(argv[1:])
    if list(argv) == _SWEEP:
        node_folders.sweep_all()
        return 0
    try:
        options = parse(argv)
        orders = AgentOrders.from_line(_read_orders())
        task = _task(orders, options, os.environ)
        folders = node_folders.make(task.name)
    except ValueError as error:
        say(str(error))
        return GIVEN_UP
    except OSError as error:
        say(f"the agent cannot make a folder on this node: {error.filename}: {error.strerror}")
        return GIVEN_UP
    return keeper.keep(task, folders)


def parse(argv: Sequence[str]) -> AgentOptions:
    """Parse the arguments. ValueError."""
    options = AgentOptions()
    if len(argv) % 2:
        raise ValueError(USAGE)
    for name, value in zip(argv[::2], argv[1::2], strict=True):
        field = name.removeprefix("--").replace("-", "_")
        if not name.startswith("--") or field not in AgentOptions._fields:
            raise ValueError(f"unknown option {name} {value}\n{USAGE}")
        options = options._replace(**{field: value})
    if not options.index_variable or not options.node_variable:
        raise ValueError(USAGE)
    return options


def _task(orders: AgentOrders, options: AgentOptions, variables: Mapping[str, str]) -> AgentTask:
    index = variables.get(options.index_variable, "")
    if not index.isdecimal() or int(index) >= len(orders.tokens):
        raise ValueError(
            f"the variable {options.index_variable} is {index!r}; it must be a number below {len(orders.tokens)}"
        )
    node = variables.get(options.node_variable) or os.uname().nodename
    # The tokens of the other tasks are not this agent's.
    own = [token if number == int(index) else "" for number, token in enumerate(orders.tokens)]
    return AgentTask(orders._replace(tokens=own), int(index), node, _runtime(), options.site)


def _runtime() -> str | None:
    """The packed file of supervisors, if this program was started from one, too."""
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), _RUNTIME_FILE)
    return beside if os.path.exists(beside) else None


def _read_orders() -> bytes:
    """One line of stdin. What follows is not read, and programs below get /dev/null."""
    data = b""
    while b"\n" not in data and len(data) < _LONGEST_ORDERS and (more := _read(0)):
        data += more
    if not data:
        raise ValueError("stdin is empty: an agent reads its orders there")
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.close(null)
    return data.partition(b"\n")[0]


def _read(fd: int) -> bytes:
    with suppress(OSError):
        return os.read(fd, 1 << 16)
    return b""
