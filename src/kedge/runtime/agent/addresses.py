"""The addresses of this node, for the other tasks of the job."""

from __future__ import annotations

import _socket
import struct

from kedge.light.contextlib import suppress
from kedge.light.types import Iterator, Sequence
from kedge.runtime.agent.host_names import is_numeric

# rtnetlink(7)
_NETLINK, _ROUTE = 16, 0
_GET_ADDRESSES, _DUMP = 22, 0x301
_NEW_ADDRESS = 20
_HEADER = struct.Struct("IHHII")
_ADDRESS = struct.Struct("BBBBI")
_ATTRIBUTE = struct.Struct("HH")
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_OTHER_SCOPES = (253,)  # link: such addresses need the name of an interface besides
_MOST = 64  # pieces of an answer
_PATIENCE_SEC = 5.0
_MOST_TOLD = 64  # a node may have thousands: those of all services of a Kubernetes cluster
_OWN = ("127.", "::1")  # nobody else can reach the node there


def of_node(controller: Sequence[str]) -> list[str]:
    """The addresses of this node, the best first: the one that it has in the controller's network, then those of its
    other networks, those that only the node itself can reach last. Of very many the first ones."""
    towards = [found for address in controller if is_numeric(address) and (found := _towards(address))]
    known = dict.fromkeys([*towards, *_interfaces()])
    return sorted(known, key=lambda address: address.startswith(_OWN))[:_MOST_TOLD]  # otherwise in this order


def boot_id() -> str:
    """The id of the node's current boot; empty if it has none."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", "rb", buffering=0) as file:
        return file.readall().decode().strip()
    return ""


def _towards(address: str) -> str | None:
    """The node's own address in packets to another one. Nothing is sent."""
    family = _socket.AF_INET6 if ":" in address else _socket.AF_INET
    with suppress(OSError):
        probe = _socket.socket(family, _socket.SOCK_DGRAM)
        try:
            probe.connect((address, 9))
            own: str = probe.getsockname()[0]
            return own
        finally:
            probe.close()
    return None


def _interfaces() -> list[str]:
    """The addresses of all interfaces, as the kernel lists them."""
    found: list[str] = []
    with suppress(OSError):
        kernel = _socket.socket(_NETLINK, _socket.SOCK_RAW, _ROUTE)
        try:
            kernel.settimeout(_PATIENCE_SEC)
            kernel.send(_HEADER.pack(_HEADER.size + 4, _GET_ADDRESSES, _DUMP, 1, 0) + bytes(4))
            for _ in range(_MOST):
                kinds = []
                for kind, body in _parts(_HEADER, kernel.recv(1 << 16)):
                    kinds.append(kind)
                    if kind == _NEW_ADDRESS:
                        found += _of_message(body)
                if not kinds or kinds[-1] != _NEW_ADDRESS:
                    break
        finally:
            kernel.close()
    return found


def _of_message(body: bytes) -> Iterator[str]:
    family, _, _, scope, _ = _ADDRESS.unpack_from(body)
    attributes = dict(_parts(_ATTRIBUTE, body[_ADDRESS.size :]))
    value = attributes.get(_IFA_LOCAL) or attributes.get(_IFA_ADDRESS)
    if value and scope not in _OTHER_SCOPES and family in (_socket.AF_INET, _socket.AF_INET6):
        yield _socket.inet_ntop(family, value)


def _parts(head: struct.Struct, data: bytes) -> Iterator[tuple[int, bytes]]:
    """The kind and the content of each part; its head begins with its length and its kind."""
    while len(data) >= head.size:
        length, kind, *_ = head.unpack_from(data)
        if not head.size <= length <= len(data):
            break
        yield kind, data[head.size : length]
        data = data[length + 3 & ~3 :]
