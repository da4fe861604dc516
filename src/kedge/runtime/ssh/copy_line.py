"""The command line of `scp`, with OpenSSH's letters and meanings."""

from __future__ import annotations

import getopt
from collections.abc import Sequence
from typing import NamedTuple

from kedge.runtime.ssh import command_line
from kedge.runtime.ssh.command_line import Destination, UsageError

_LETTERS = "346BCc:D:F:i:J:l:Oo:P:pqRrS:sTvX:"
_NO_EFFECT = frozenset("3ORsSTqv")
_AS_OPTION = {
    "-4": "AddressFamily=inet", "-6": "AddressFamily=inet6", "-B": "BatchMode=yes", "-C": "Compression=yes",
}  # fmt: skip
_WITH_VALUE = {"-c": "Ciphers={}", "-i": "IdentityFile={}", "-J": "ProxyJump={}"}
USAGE = """\
usage: scp [-346BCOpqRrsTv] [-c cipher] [-F ssh_config] [-i identity_file] [-J destination] [-o ssh_option]
           [-P port] source ... target"""


class CopyPlace(NamedTuple):
    """A path of this task, or of another one if there is a destination."""

    path: str
    destination: Destination | None = None


class CopyCommand(NamedTuple):
    """What `scp` is asked to do; `options` are lines for the configuration."""

    sources: tuple[CopyPlace, ...]
    target: CopyPlace
    options: tuple[str, ...] = ()
    config: str | None = None
    recurse: bool = False
    preserve: bool = False
    quiet: bool = False


def parse(arguments: Sequence[str]) -> CopyCommand:
    """UsageError describes a wrong command line."""
    try:
        options, words = getopt.gnu_getopt(list(arguments), f"+{_LETTERS}")
    except getopt.GetoptError as error:
        raise UsageError(f"unknown option -- {error.opt}\n{USAGE}") from None
    if len(words) < 2:
        raise UsageError(USAGE)
    number = next((command_line.port(value) for name, value in options if name == "-P"), None)
    *sources, target = (_place(word, number) for word in words)
    given = dict(options)
    return CopyCommand(
        tuple(sources), target, tuple(_lines(options)), given.get("-F"), "-r" in given, "-p" in given, "-q" in given
    )


def _lines(options: Sequence[tuple[str, str]]) -> list[str]:
    lines = []
    for name, value in options:
        if name in _AS_OPTION:
            lines.append(_AS_OPTION[name])
        elif name in _WITH_VALUE:
            lines.append(_WITH_VALUE[name].format(value))
        elif name == "-o":
            lines.append(command_line.one_line(value))
        elif name in ("-D", "-l", "-X"):
            raise UsageError(f"{name} is not supported by kedge's scp")
    return lines


def _place(word: str, number: int | None) -> CopyPlace:
    """`[user@]host:path` or `scp://[user@]host[:port][/path]`; everything else is a path of this task."""
    if word.startswith("scp://"):
        place, _, path = word.removeprefix("scp://").partition("/")
        return CopyPlace(path or ".", command_line.destination(f"ssh://{place}", Destination("", None, number)))
    after = word.rfind("]") if word.partition("@")[2].startswith("[") or word.startswith("[") else 0
    colon = word.find(":", max(after, 0))
    if colon < 1 or "/" in word[:colon]:
        return CopyPlace(word)
    path = word[colon + 1 :].removeprefix("~/") or "."
    host = word[:colon].replace("[", "").replace("]", "")
    return CopyPlace("." if path == "~" else path, command_line.destination(host, Destination("", None, number)))
