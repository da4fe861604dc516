"""The start of the agent in the pod of a task, as the first process of a container of its own."""

from __future__ import annotations

import os
import stat

from kedge import untrusted
from kedge.light.contextlib import suppress
from kedge.light.types import Mapping, Sequence
from kedge.link import pod_folders
from kedge.link.launch import AgentOrders
from kedge.runtime.agent import keeper, pod_files
from kedge.runtime.agent.keeper import GIVEN_UP, AgentTask, PodFifos, say

USAGE = "usage: agent --pod --index N --node-variable NAME --orders-variable NAME --token-file PATH"
_LARGEST_TOKEN = 4096  # bytes
_INDEX, _NODE, _ORDERS, _TOKEN = "--index", "--node-variable", "--orders-variable", "--token-file"
_NEEDED = {_INDEX, _NODE, _ORDERS, _TOKEN}
_ROOT = "--root"  # stands before all paths of kedge.link.pod_folders, in tests
_MOST_TASKS = 1_000_000  # of a role
_TERMINATION_LOG = "/dev/termination-log"  # what the cluster shows of a container's end


def main(argv: Sequence[str]) -> int:
    """Keep an agent running until it is told to finish. Returns 0 then, and GIVEN_UP when something is wrong."""
    os.umask(0o022)  # the supervisor may be another user's
    try:
        options = _parse(argv)
        task = _task(options, os.environ)
    except ValueError as error:
        return _give_up(str(error))
    except OSError as error:
        return _give_up(f"the agent of a task cannot start: {error.filename}: {error.strerror}")
    return keeper.keep(task, pod_files.folders(options.get(_ROOT, "")))


def _parse(argv: Sequence[str]) -> Mapping[str, str]:
    """The values of the options, by their names."""
    options = dict(zip(argv[::2], argv[1::2], strict=False))
    complete = len(argv) == 2 * len(options) and _NEEDED <= options.keys() <= {*_NEEDED, _ROOT}
    if not complete or not options[_INDEX].isdecimal() or int(options[_INDEX]) > _MOST_TASKS:
        raise ValueError(USAGE)
    return options


def _task(options: Mapping[str, str], variables: Mapping[str, str]) -> AgentTask:
    line = variables.get(options[_ORDERS], "")
    if not line:
        raise ValueError(f"the variable {options[_ORDERS]}, which holds the orders of the agent, is not set")
    index, root = int(options[_INDEX]), options.get(_ROOT, "")
    token = untrusted.read_path(options[_TOKEN], _LARGEST_TOKEN).decode(errors="replace").strip()
    orders = AgentOrders.from_line(line.encode())._replace(tokens=[*[""] * index, token])
    node = variables.get(options[_NODE]) or os.uname().nodename
    return AgentTask(orders, index, node, None, None, _open_fifos(root))


def _open_fifos(root: str) -> PodFifos:
    """Open them before anything of the task runs. Requests wait in theirs until the supervisor has started."""
    status = _open(root + pod_folders.STATUS, os.O_RDONLY)
    return PodFifos(status, _open(root + pod_folders.CONTROL, os.O_RDWR), root)


def _open(path: str, mode: int) -> int:
    fd = os.open(path, mode | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        raise ValueError(f"{path} is not the FIFO that the container `prepare` has made")
    return fd


def _give_up(why: str) -> int:
    say(why)
    with suppress(OSError):
        fd = os.open(_TERMINATION_LOG, os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC)
        os.write(fd, why.encode(errors="replace"))
        os.close(fd)
    return GIVEN_UP
