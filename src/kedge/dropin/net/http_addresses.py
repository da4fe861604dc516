"""Addresses of HTTP servers, split without `urllib.parse`, which takes as long to load as Python takes to start."""

from __future__ import annotations

from kedge.light.types import NamedTuple

_PORTS = {"http": 80, "https": 443}


class Address(NamedTuple):
    """A parsed address. `target` is the path with the query, ASCII only; `user` is `name:password`, None without."""

    scheme: str
    host: str
    port: int
    target: str
    user: str | None = None

    @property
    def authority(self) -> str:
        """Host and port as in the header Host: without the port if it is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """The address for messages: without user and query, which may be secret."""
        return f"{self.scheme}://{self.authority}{self.target.partition('?')[0]}"

    def same_server(self, other: Address) -> bool:
        return self[:3] == other[:3]


def parse(text: str) -> Address:
    """Parse an http(s) address. ValueError describes what is wrong with it, without repeating it."""
    if any(character <= " " or character == "\x7f" for character in text):
        raise ValueError("it contains a blank or a control character")
    scheme, separator, rest = text.partition("://")
    if not separator or scheme.lower() not in _PORTS:
        raise ValueError("it must start with http:// or https://")
    rest = rest.partition("#")[0]
    end = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    user, at, place = rest[:end].rpartition("@")
    host, port = _host_and_port(place)
    target = rest[end:] if rest[end : end + 1] == "/" else f"/{rest[end:]}"
    return Address(scheme.lower(), host, port or _PORTS[scheme.lower()], _ascii(target), user if at else None)


def redirected(base: Address, location: str) -> Address:
    """The address in a header Location. ValueError describes what is wrong with it."""
    if "://" in location.partition("?")[0]:
        target = parse(location)
        if base.scheme == "https" and target.scheme == "http":
            raise ValueError("it leads from https to http")
        return target._replace(user=None)
    if location.startswith("//"):
        return redirected(base, f"{base.scheme}:{location}")
    if not location:
        raise ValueError("the Location header is missing")
    folder = base.target.partition("?")[0].rpartition("/")[0]
    path = location if location.startswith("/") else f"{folder}/{location}"
    return parse(f"{base.scheme}://{base.authority}{path}")


def _host_and_port(place: str) -> tuple[str, int | None]:
    """The host in lower case, and the port if there is one."""
    if place.startswith("["):
        host, closed, after = place[1:].partition("]")
        if not closed or (after and not after.startswith(":")):
            raise ValueError("the brackets around its host are wrong")
        port = after[1:]
    else:
        host, _, port = place.partition(":")
    if not host:
        raise ValueError("the host is missing")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        raise ValueError("its port is not a number from 1 to 65535")
    return _ascii_host(host.lower()), int(port) if port else None


def _ascii_host(host: str) -> str:
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError as error:
        raise ValueError(f"its host is not a valid name: {error}") from None


def _ascii(target: str) -> str:
    """The text with percent escapes for all other characters than ASCII's."""
    if target.isascii():
        return target
    escaped = (chr(byte) if byte < 128 else f"%{byte:02X}" for byte in target.encode(errors="replace"))
    return "".join(escaped)
