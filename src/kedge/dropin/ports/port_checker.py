"""Init program: Check that the task's ports are free.

    portChecker [--udp] [FILE]

FILE has one port a line, or is runtime_env.sh (the default), whose PAI_CONTAINER_HOST_PORT_LIST counts. With --udp, a
port is also in conflict if it is in use for UDP; otherwise that is a warning. Another program may still take a port
afterwards.
"""

from __future__ import annotations

import _socket
import errno
import os

from kedge import user_files
from kedge.dropin.init_log import InitLog
from kedge.dropin.paths import RUNTIME_ENV
from kedge.dropin.ports import port_holders
from kedge.dropin.program import FAILED, SUCCEEDED, InitContext
from kedge.light.types import Iterator, NamedTuple, Sequence

CONFLICT = 10
_VARIABLE = "PAI_CONTAINER_HOST_PORT_LIST"
_LARGEST_FILE = 64 << 20  # bytes; the variables of a large job
_LARGEST_PORT = 65535
_TCP, _UDP = "TCP", "UDP"
_KINDS = ((_TCP, _socket.SOCK_STREAM), (_UDP, _socket.SOCK_DGRAM))
_EVERYWHERE = ((_socket.AF_INET, "0.0.0.0"), (_socket.AF_INET6, "::"))  # noqa: S104  (bound for a moment, as a test)
_NO_SUCH_FAMILY = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})


class Port(NamedTuple):
    """A port of the task. `label` is its name in the job, empty if it is not known."""

    number: int
    label: str = ""

    @property
    def shown(self) -> str:
        return f"{self.number} ({self.label})" if self.label else str(self.number)


class PortUse(NamedTuple):
    """A port is in use at an address."""

    port: Port
    protocol: str
    address: str


def run(arguments: Sequence[str], context: InitContext) -> int:
    """Check the ports. 0 if all are free, 10 if one is not or is listed twice, 1 if the list cannot be read."""
    log = context.log
    files = [each for each in arguments if each != "--udp"]
    path = files[0] if files else f"{context.paths.runtime_d}/{RUNTIME_ENV}"
    try:
        ports = _listed(user_files.read(path, _LARGEST_FILE).decode("utf-8", "replace"))
    except OSError as error:
        log.error(f"the ports of this task cannot be read from {path}: {error.strerror}")
        return FAILED
    except ValueError as error:
        log.error(f"{path}: {error}")
        return FAILED
    log.info(f"ports from {path}: {', '.join(port.shown for port in ports) or 'none'}")
    conflicts = _duplicates(ports, log) + _in_use(ports, "--udp" in arguments, log)
    return CONFLICT if conflicts else SUCCEEDED


def _listed(text: str) -> list[Port]:
    """The ports in a file of either kind. ValueError for a number that is no port."""
    values = [
        line.partition("=")[2] for line in text.splitlines() if line.removeprefix("export ").startswith(f"{_VARIABLE}=")
    ]
    if values:
        return list(_of_variable(values[-1].strip().strip("'\"")))
    if "=" in text:  # variables, and none for ports
        return []
    return list(_numbers("", text.split()))


def _of_variable(value: str) -> Iterator[Port]:
    """The ports of `tcp:1000,1001;ssh:1002;`."""
    for part in value.split(";"):
        label, _, numbers = part.rpartition(":")
        yield from _numbers(label, numbers.split(","))


def _numbers(label: str, numbers: Sequence[str]) -> Iterator[Port]:
    for number in numbers:
        text = number.strip()
        if not (text.isascii() and text.isdigit()):
            continue
        if len(text) > 9 or not 0 < int(text) <= _LARGEST_PORT:
            raise ValueError(f"{text} is not a port: it must be a number from 1 to {_LARGEST_PORT}")
        yield Port(int(text), label)


def _duplicates(ports: Sequence[Port], log: InitLog) -> int:
    """Report ports that are listed twice, which two programs of the task would share."""
    first: dict[int, Port] = {}
    found = [(port, first[port.number]) for port in ports if first.setdefault(port.number, port) is not port]
    for port, other in found:
        log.error(f"Port {port.number} has conflict.")
        labels = f", as {other.label} and as {port.label}" if other.label and port.label else ""
        log.error(f"port {port.number} is listed twice{labels}")
    return len(found)


def _in_use(ports: Sequence[Port], udp: bool, log: InitLog) -> int:
    """Report ports that are in use, with the processes that hold them. Returns the number of conflicts."""
    conflicts = 0
    for port in dict.fromkeys(ports):
        uses = list(_uses(port, log))
        counting = [use for use in uses if udp or use.protocol == _TCP]
        if counting:
            log.error(f"Port {port.number} has conflict.")
        for use in uses:
            report = log.error if use in counting else log.warning
            report(f"port {port.shown} is in use for {use.protocol} on {use.address}: {_holder(use)}")
        conflicts += bool(counting)
    return conflicts


def _holder(use: PortUse) -> str:
    return port_holders.describe(use.protocol.lower(), use.port.number)


def _uses(port: Port, log: InitLog) -> Iterator[PortUse]:
    """Where a port is in use. Addresses of IPv6 do not count where there is no IPv6."""
    for protocol, kind in _KINDS:
        for family, address in _EVERYWHERE:
            error = _bind(family, kind, address, port.number)
            if error == errno.EADDRINUSE and not _is_only_closing(family, protocol, address, port.number):
                yield PortUse(port, protocol, address)
            elif error and error not in _NO_SUCH_FAMILY and error != errno.EADDRINUSE:
                log.warning(f"port {port.shown} cannot be checked for {protocol} on {address}: {_words(error)}")


def _bind(family: int, kind: int, address: str, port: int, *, reuse: bool = False) -> int:
    """Bind a socket for a moment. Returns the error's number, 0 without one."""
    try:
        test = _socket.socket(family, kind)
    except OSError as error:
        return error.errno or errno.EAFNOSUPPORT
    try:
        if family == _socket.AF_INET6:
            test.setsockopt(_socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY, 1)
        if reuse:
            test.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        test.bind((address, port))
    except OSError as error:
        return error.errno or errno.EADDRINUSE
    finally:
        test.close()
    return 0


def _is_only_closing(family: int, protocol: str, address: str, port: int) -> bool:
    """Whether only connections that have ended keep the port (TIME_WAIT). Servers can be started on such a port."""
    if protocol != _TCP or _bind(family, _socket.SOCK_STREAM, address, port, reuse=True):
        return False
    return port_holders.is_only_closing(port)


def _words(number: int) -> str:
    return os.strerror(number)
