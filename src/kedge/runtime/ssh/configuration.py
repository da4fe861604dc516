"""The configuration of an ssh client: OpenSSH's files and options, read by asyncssh's parser."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import asyncssh
from asyncssh.config import ConfigParseError, SSHClientConfig

from kedge.runtime.ssh.command_line import Destination, UsageError

# Options that asyncssh's parser leaves out, and that are used here: name -> kind of value.
_OWN = {
    "BatchMode": "bool", "ClearAllForwardings": "bool", "ConnectionAttempts": "int", "DynamicForward": "line",
    "ExitOnForwardFailure": "bool", "ForkAfterAuthentication": "bool", "GatewayPorts": "bool", "LocalForward": "line",
    "LogLevel": "string", "RemoteForward": "line", "SessionType": "string", "StdinNull": "bool",
    "StrictHostKeyChecking": "string",
}  # fmt: skip
# Options of OpenSSH that may be given, but change nothing here.
_NO_EFFECT = frozenset(
    """AddKeysToAgent CheckHostIP ControlMaster ControlPath ControlPersist EnableEscapeCommandline EscapeChar
    FingerprintHash ForwardX11 ForwardX11Timeout HashKnownHosts HostbasedAcceptedAlgorithms HostbasedKeyTypes
    IgnoreUnknown IPQoS KbdInteractiveDevices LogVerbose NoHostAuthenticationForLocalhost NumberOfPasswordPrompts
    ObscureKeystrokeTiming PermitLocalCommand PermitRemoteOpen ProxyUseFdpass PubkeyAcceptedAlgorithms
    PubkeyAcceptedKeyTypes RequiredRSASize RevokedHostKeys SecurityKeyProvider StreamLocalBindMask
    StreamLocalBindUnlink SyslogFacility UpdateHostKeys VerifyHostKeyDNS VisualHostKey XAuthLocation""".lower().split()
)
_UNCHECKED = ("no", "off")  # values of StrictHostKeyChecking


class ClientConfiguration(NamedTuple):
    """What a connection is made with. `options` are asyncssh's; `known_hosts` are the host keys to trust in its form,
    where None trusts every key."""

    options: Any
    host: str
    known_hosts: Any

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an option, in the spelling of OpenSSH's manual."""
        return self.options.config.get(name, default)

    @property
    def address(self) -> str:
        """The name or address that is connected to."""
        return str(self.options.host)


def read(destination: Destination, lines: Sequence[str], files: Sequence[str]) -> ClientConfiguration:
    """The configuration for one destination: options of the command line first, then files; the first value counts.
    UsageError names the option or the line that is wrong."""
    _learn_own_options()
    _name_user()
    for line in lines:
        _check(line)
    given = os.memfd_create("ssh-options")
    os.write(given, "".join(f"{_spaced(line)}\n" for line in lines).encode())
    command_line = f"/proc/self/fd/{given}"
    named = {"username": destination.user, "port": destination.port}
    try:
        options = asyncssh.SSHClientConnectionOptions(
            config=[command_line, *files],
            host=destination.host,
            **{name: value for name, value in named.items() if value is not None},
        )
    except ConfigParseError as error:
        raise UsageError(str(error).replace(command_line, "command-line:")) from None
    except OSError as error:
        kind = "Can't open user config file" if error.filename in files else "Load key"
        raise UsageError(f"{kind} {error.filename}: {error.strerror}") from None
    except (ValueError, asyncssh.Error) as error:
        raise UsageError(str(error)) from None
    finally:
        os.close(given)
    return ClientConfiguration(options, destination.host, _known_hosts(options))


def _known_hosts(options: Any) -> Any:
    strict = str(options.config.get("StrictHostKeyChecking", "ask")).lower()
    if strict in _UNCHECKED:
        return None
    files = options.known_hosts or [os.path.expanduser("~/.ssh/known_hosts")]
    there = [name for name in map(os.path.expanduser, files) if os.access(name, os.R_OK)]
    if not there:
        return None if strict == "accept-new" else asyncssh.import_known_hosts("")
    known = asyncssh.read_known_hosts(there)
    host, port = options.host_key_alias or options.host, None if options.port == 22 else options.port
    if strict == "accept-new" and not any(known.match(host, "", port)):
        return None
    return known


def default_files() -> list[str]:
    """The files that are read without -F, as far as they exist."""
    files = (os.path.expanduser("~/.ssh/config"), "/etc/ssh/ssh_config")
    return [file for file in files if os.access(file, os.R_OK)]


def task_names(files: Sequence[str]) -> list[str]:
    """The names in the Host lines of these files that are no patterns."""
    return [name for file in files for names, _ in _blocks(file) for name in names if not set("*?!") & set(name)]


def task_blocks(file: str) -> dict[str, list[str]]:
    """For each Host line that begins with a plain name: this name, with the options below it and those of all hosts. A
    file that is missing has none."""
    blocks = list(_blocks(file))
    common = [line for names, lines in blocks if names == ["*"] for line in lines]
    return {names[0]: [*lines, *common] for names, lines in blocks if names and not set("*?!") & set(names[0])}


def _blocks(file: str) -> Iterator[tuple[list[str], list[str]]]:
    """The patterns of each Host line (those of a Match line are empty), and the lines below it."""
    names, lines = ["*"], list[str]()
    try:
        with open(file, encoding="utf-8", errors="replace") as text:
            for words in filter(None, map(str.split, text)):
                if words[0].lower() in ("host", "match"):
                    yield names, lines
                    names, lines = words[1:] if words[0].lower() == "host" else [], []
                elif not words[0].startswith("#"):
                    lines.append(" ".join(words))
    except OSError:
        return
    yield names, lines


def _learn_own_options() -> None:
    """Make the parser keep the options of _OWN. It is the only place where it takes the names that it keeps from."""
    if "batchmode" in SSHClientConfig._handlers:
        return
    kinds = {
        "bool": SSHClientConfig._set_bool,
        "int": SSHClientConfig._set_int,
        "string": SSHClientConfig._set_string,
        "line": _append_line,
    }
    SSHClientConfig._handlers.update({name.lower(): (name, kinds[kind]) for name, kind in _OWN.items()})
    SSHClientConfig._handlers["identityfile"] = ("IdentityFile", _append_identity)


def _append_line(config: Any, option: str, words: list[str]) -> None:
    config._options.setdefault(option, []).append(" ".join(words))
    words.clear()


def _append_identity(config: Any, option: str, words: list[str]) -> None:
    """Add a key file. One that is missing is left out, as OpenSSH does; asyncssh would refuse the connection."""
    if "%" in words[0] or os.path.exists(os.path.expanduser(words[0])):
        SSHClientConfig._append_string(config, option, words)
    else:
        words.clear()


def _check(line: str) -> None:
    """Refuse an option of the command line that is unknown, or that cannot be done."""
    name = _spaced(line).partition(" ")[0].lower()
    if name not in SSHClientConfig._handlers and name not in _NO_EFFECT:
        raise UsageError(f"command-line: line 0: Bad or unsupported configuration option: {name}")


def _spaced(line: str) -> str:
    """`Name=value` as `Name value`."""
    name, sign, value = line.strip().partition("=")
    return line.strip() if " " in name.strip() or not sign else f"{name.strip()} {value.strip()}"


def _name_user() -> None:
    """Give a user without an entry in /etc/passwd, as images may have, a name."""
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["LOGNAME"] = f"uid{os.getuid()}"
