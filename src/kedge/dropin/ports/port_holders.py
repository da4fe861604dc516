"""Which process holds a port, as far as /proc shows it: sockets of this network namespace, and processes of this
process namespace whose descriptors this user may see."""

from __future__ import annotations

import os

from kedge.light.types import Iterator, NamedTuple

_TIME_WAIT = 6
_MAX_WORDS = 3  # of a command line; its options may be secret


class Holder(NamedTuple):
    """A socket on a port. The inode is 0 for a connection that has ended."""

    state: int
    user: int
    inode: int


def describe(protocol: str, port: int) -> str:
    """Who holds a port, in words. `protocol` is tcp or udp."""
    holders = sorted(_holders(protocol, port), key=lambda each: each.inode == 0)
    if not holders:
        return "by a socket that is bound and does not listen; its process cannot be known"
    found = _processes({each.inode for each in holders if each.inode})
    known = [_process(pid, each.user) for each in holders for pid in found.get(each.inode, ())]
    if known:
        return ", ".join(dict.fromkeys(f"by {one}" for one in known))
    return _unknown(holders[0].user)


def is_only_closing(port: int) -> bool:
    """Whether the port has only connections that have ended, at least one."""
    states = {each.state for each in _holders("tcp", port)}
    return states == {_TIME_WAIT}


def _unknown(user: int) -> str:
    """Why a process is not named. Its user is part of the socket."""
    whose = f"by a process of {_user(user)}"
    if os.geteuid() and user != os.geteuid():
        return f"{whose}; only this user and root can see which process it is"
    return f"{whose} that cannot be seen from here: it belongs to the host, or to another container"


def _holders(protocol: str, port: int) -> Iterator[Holder]:
    """The sockets on a port, from lines like `0: 0100007F:1F90 00000000:0000 0A 00000000:… 00:… 0 1000 0 12345`."""
    for table in (protocol, f"{protocol}6"):
        for line in _lines(f"/proc/self/net/{table}"):
            fields = line.split()
            if len(fields) > 9 and fields[0] != "sl" and fields[1].rpartition(":")[2] == f"{port:04X}":
                yield Holder(int(fields[3], 16), int(fields[7]), int(fields[9]))


def _lines(path: str) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from file
    except OSError:
        return


def _processes(inodes: set[int]) -> dict[int, list[int]]:
    """The processes that have sockets open, by the sockets' inodes."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[int, list[int]] = {}
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        for link in _descriptors(pid):
            if link in wanted and pid not in found.setdefault(wanted[link], []):
                found[wanted[link]].append(pid)
    return found


def _descriptors(pid: int) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:  # another user's, or it has ended
        return
    for name in names:
        try:
            yield os.readlink(f"{folder}/{name}")
        except OSError:
            continue


def _process(pid: int, user: int) -> str:
    return f"process {pid} ({_command(pid)}) of {_user(user)}"


def _command(pid: int) -> str:
    """The program of a process and its words before the first option."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(4096).decode("utf-8", "replace").split("\0")
    except OSError:
        words = []
    shown = []
    for word in words[:_MAX_WORDS]:
        if word.startswith("-") or not word:
            break
        shown.append(word)
    text = " ".join(shown)[:200] or "its command is unknown"
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _user(number: int) -> str:
    """A user's name with its number; only the number where there is no name. /etc/passwd is read, because `pwd` may ask
    a server on the network."""
    for line in _lines("/etc/passwd"):
        fields = line.split(":")
        if len(fields) > 2 and fields[2] == str(number):
            return f"user {fields[0]} ({number})"
    return f"user {number}"
