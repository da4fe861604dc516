"""The command line of `ssh`, with OpenSSH's letters and meanings."""

from __future__ import annotations

import getopt
from collections.abc import Sequence
from typing import NamedTuple

_LETTERS = "1246AaB:b:Cc:D:E:e:F:fgi:I:J:KkL:l:Mm:NnO:o:p:Q:qR:S:sTtVvW:w:XxYy"
# Letters that change nothing here: X11, a control connection, the escape character and GSSAPI are not offered.
_NO_EFFECT = frozenset("2ekKMSxXYy")
_REFUSED = {
    "-1": "SSH protocol v.1 is not supported",
    "-B": "-B (binding to an interface) is not supported by kedge's ssh; use -b ADDRESS",
    "-G": "-G is not supported by kedge's ssh",
    "-I": "PKCS#11 devices are not supported by kedge's ssh",
    "-O": "kedge's ssh has no control connections",
    "-Q": "-Q is not supported by kedge's ssh",
    "-w": "tunnel devices are not supported by kedge's ssh",
}
# A letter that stands for an option of the configuration.
_AS_OPTION = {
    "-4": "AddressFamily=inet", "-6": "AddressFamily=inet6", "-A": "ForwardAgent=yes", "-a": "ForwardAgent=no",
    "-C": "Compression=yes", "-g": "GatewayPorts=yes", "-N": "SessionType=none", "-n": "StdinNull=yes",
    "-q": "LogLevel=QUIET", "-s": "SessionType=subsystem", "-f": "ForkAfterAuthentication=yes",
}  # fmt: skip
_WITH_VALUE = {
    "-b": "BindAddress={}", "-c": "Ciphers={}", "-D": "DynamicForward={}", "-i": "IdentityFile={}",
    "-J": "ProxyJump={}", "-m": "MACs={}",
}  # fmt: skip
USAGE = """\
usage: ssh [-46AaCfgNnqsTtVvx] [-b bind_address] [-c cipher_spec] [-D [bind_address:]port] [-E log_file]
           [-F configfile] [-i identity_file] [-J destination] [-L address] [-l login_name] [-m mac_spec]
           [-o option] [-p port] [-R address] [-W host:port] destination [command [argument ...]]"""


class UsageError(Exception):
    """A wrong command line; the text describes it as OpenSSH does."""


class Destination(NamedTuple):
    """Where to connect to. None where the command line leaves it to the configuration."""

    host: str
    user: str | None = None
    port: int | None = None


class SshCommand(NamedTuple):
    """What `ssh` is asked to do. `options` are lines for the configuration, in the order of the command line;
    `terminal` counts -t, and is negative after -T; `config` is None for the default files."""

    destination: Destination
    command: str | None = None
    options: tuple[str, ...] = ()
    config: str | None = None
    terminal: int = 0
    verbose: int = 0
    stdio_forward: str | None = None
    log_file: str | None = None


def parse(arguments: Sequence[str]) -> SshCommand | None:
    """The command, or None for -V. UsageError."""
    options, words = _getopt(arguments)
    if ("-V", "") in options:
        return None
    if not words:
        raise UsageError(USAGE)
    host, *words = words
    more, words = _getopt(words) if words and words[0].startswith("-") else ([], words)
    found = _collect([*options, *more])
    return found._replace(destination=destination(host, found.destination), command=" ".join(words) or None)


def _getopt(words: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    try:
        return getopt.getopt(list(words), _LETTERS)
    except getopt.GetoptError as error:
        what = "option requires an argument" if "requires" in error.msg else "unknown option"
        raise UsageError(f"{what} -- {error.opt}\n{USAGE}") from None


def _collect(options: Sequence[tuple[str, str]]) -> SshCommand:
    found, lines = SshCommand(Destination("")), list[str]()
    for name, value in options:
        if name in _REFUSED:
            raise UsageError(_REFUSED[name])
        if name in _AS_OPTION:
            lines.append(_AS_OPTION[name])
        elif name in _WITH_VALUE:
            lines.append(_WITH_VALUE[name].format(value))
        elif name in ("-L", "-R"):
            lines.append(_forward(name, value))
        elif name == "-o":
            lines.append(one_line(value))
        elif name[1] not in _NO_EFFECT:
            found = _apply(found, name, value)
    return found._replace(options=tuple(lines))


def _apply(found: SshCommand, name: str, value: str) -> SshCommand:
    """The command with one more option that has a field of its own."""
    place = found.destination
    match name:
        case "-E":
            return found._replace(log_file=value)
        case "-F":
            return found._replace(config=value)
        case "-T":
            return found._replace(terminal=-1)
        case "-t":
            return found._replace(terminal=max(found.terminal, 0) + 1)
        case "-v":
            return found._replace(verbose=found.verbose + 1)
        case "-W":
            return found._replace(stdio_forward=value)
        case "-l":
            return found._replace(destination=place._replace(user=place.user or value))
        case "-p":
            return found._replace(destination=place._replace(port=place.port or port(value)))
    raise UsageError(USAGE)  # -V after the destination


def port(text: str) -> int:
    """A port's number. UsageError as OpenSSH words it."""
    if text.isascii() and text.isdigit() and 0 < int(text) < 65536:
        return int(text)
    raise UsageError(f"Bad port '{text}'")


def _forward(name: str, value: str) -> str:
    """`[bind:]port:host:hostport` as the two words of LocalForward and RemoteForward."""
    listen, connect = split_forward(value)
    if not listen or not connect:
        kind = "local" if name == "-L" else "remote"
        raise UsageError(f"Bad {kind} forwarding specification '{value}'")
    return f"{'LocalForward' if name == '-L' else 'RemoteForward'}={listen} {connect}"


def split_forward(value: str) -> tuple[str, str]:
    """The place to listen at and the place to connect to; empty texts if `value` is no forwarding."""
    parts, rest = list[str](), value
    while rest:
        end = rest.index("]") + 1 if rest.startswith("[") and "]" in rest else 0
        part, _, rest = (rest[:end], "", rest[end + 1 :]) if end else rest.partition(":")
        parts.append(part)
    to = 1 if parts and parts[-1].startswith("/") else 2
    return ":".join(parts[:-to]), ":".join(parts[-to:])


def one_line(option: str) -> str:
    """The value of -o. UsageError if it would be more than one line of a configuration."""
    if "\n" in option or "\0" in option:
        raise UsageError("an option of the command line must be a single line")
    return option


def destination(text: str, given: Destination) -> Destination:
    """`[user@]host` or `ssh://[user@]host[:port]`; -l and -p come first."""
    uri = text.startswith("ssh://")
    user, _, host = text.removeprefix("ssh://").rstrip("/" if uri else "").rpartition("@")
    number = given.port
    if uri and ":" in host and not host.endswith("]"):
        host, _, digits = host.rpartition(":")
        number = number or port(digits)
    host = host.strip("[]") if uri else host
    if not host or host.startswith("-"):
        raise UsageError("hostname contains invalid characters")
    return Destination(host, given.user or user or None, number)
