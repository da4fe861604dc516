"""Counts what one task asks of the file system that the nodes of a cluster share: of the bundle, and of the run folder.

    python benchmarks/shared_folder.py

A thousand tasks make a thousand times as many calls. It counts the calls with a path of an agent, its supervisor and
the task's shell, from their start to their end, as strace reports them; the command is `true`. What the
controller does for the task is not counted. A file system with a cache on the node answers some of them from there:
Linux's NFS client answers neither the opening of a file nor a change.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from agent import TASK, Node, end

from kedge.bundle import cache, layers
from kedge.engines.cluster.link_updates import Joined, Message
from kedge.link import messages

_CALL = re.compile(r'(\w+)\((?:AT_FDCWD, |\d+, )?"([^"]*)"(.*)\) = (-?\d+)')
_LOOKS = {"newfstatat", "stat", "lstat", "statx", "access", "faccessat", "faccessat2", "readlink", "readlinkat"}
_KINDS = ("files opened", "files and folders made", "other changes", "stat and the like", "failed calls")


def main() -> None:
    """Count and print."""
    strace = shutil.which("strace")
    if not strace:
        sys.exit("this needs strace")
    bundle = Path(cache.ensure((layers.CORE, layers.NET, layers.DRIVER)))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        run_task(bundle, place / "task", (strace, "-ff", "-e", "trace=%file", "-o", str(place / "trace")))
        calls = [call for file in place.glob("trace.*") for call in _CALL.findall(file.read_text())]
    print(f"{'':<26}{'bundle':>8}{'run folder':>12}")
    counts = [count(calls, str(each)) for each in (bundle, place / "task" / "run")]
    for kind in _KINDS:
        print(f"{kind:<26}{counts[0][kind]:>8}{counts[1][kind]:>12}")


def run_task(bundle: Path, folder: Path, under: tuple[str, ...]) -> None:
    """The whole life of an agent with one task."""
    folder.mkdir()
    node = Node(bundle, folder, 0, under)
    node.until(lambda update: isinstance(update, Joined))
    node.server.send(TASK, messages.RESERVE, {"ports": {"http": 1}})
    node.until(lambda update: isinstance(update, Message) and update.kind == messages.RESERVED)
    node.start("true")
    node.until(lambda update: isinstance(update, Message) and update.kind == messages.ENDED)
    node.server.send(TASK, messages.FINISH, {})
    end(node)


def count(calls: list[tuple[str, str, str, str]], folder: str) -> Counter[str]:
    """The calls on what is in a folder, by their kind."""
    return Counter(_kind(name, rest, int(result)) for name, path, rest, result in calls if path.startswith(folder))


def _kind(name: str, rest: str, result: int) -> str:
    if result < 0:
        return "failed calls"
    if name in _LOOKS:
        return "stat and the like"
    if name in ("open", "openat", "openat2", "execve"):
        return "files and folders made" if "O_CREAT" in rest else "files opened"
    return "files and folders made" if name.startswith(("mkdir", "mknod")) else "other changes"


if __name__ == "__main__":
    main()
