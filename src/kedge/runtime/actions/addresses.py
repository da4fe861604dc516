"""Addresses: checking them, splitting off their credentials, and showing them in messages."""

from __future__ import annotations

import re
import string
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from kedge.runtime.actions.base import ActionFailed

HTTP = ("http", "https")
_HOST = re.compile(r"(?!.{254})([a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_WITH_PORTS = ("ssh", "git", "git+ssh", "ssh+git", "sftp", "ftp", "ftps")  # in others, ":" need not precede a port
_LONGEST = 300  # characters of an address in a message


class Target(NamedTuple):
    """A parsed address. `url` is ASCII, without credentials and fragment. `username` is None if there was none."""

    url: str
    username: str | None = None
    password: str = ""


def parse(uri: str) -> Target:
    """Parse an http(s) address. ActionFailed (bad_config) describes what is wrong with it."""
    try:
        parts = _split(uri)
        host = _host(parts)
    except ValueError as error:
        raise ActionFailed(f"'{shown(uri)}' is not a valid address: {error}", "bad_config") from error
    path, query = (quote(part, safe=string.punctuation) for part in (parts.path or "/", parts.query))
    url = parts._replace(netloc=host, path=path, query=query, fragment="").geturl()
    if parts.username is None:
        return Target(url)
    return Target(url, unquote(parts.username), unquote(parts.password or ""))


def redirected(base: str, location: str) -> str:
    """The address in a header `Location` (decoded as Latin-1), without credentials. ActionFailed describes what is
    wrong with it."""
    text = quote(location.strip(), safe=string.punctuation, encoding="iso-8859-1", errors="replace")
    try:
        if not text:
            raise ValueError("the Location header is missing")
        address = urljoin(base, text)
        parts = _split(address)
        if parts.scheme not in HTTP:
            raise ValueError("only http and https are followed")
        return parse(address).url
    except ValueError as error:
        message = f"{shown(base)} redirects to '{shown(location)}', which cannot be followed: {error}"
    except ActionFailed as failed:
        message = f"{shown(base)} redirects to an address that cannot be followed: {failed}"
    raise ActionFailed(message, "data_file_missing")


def shown(uri: str) -> str:
    """An address for messages: without user, password and query, which may be secret. Any text is accepted."""
    scheme, separator, rest = uri.partition("://")
    if separator:
        before, slash, path = re.split("[?#]", rest, maxsplit=1)[0].partition("/")
        uri = f"{scheme}://{before.rpartition('@')[2]}{slash}{path}"
    return plain(uri)


def plain(text: str) -> str:
    """Untrusted text for a message: shortened, and with escapes for unprintable characters."""
    cut = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in cut)


def check(uri: str) -> None:
    """ActionFailed (bad_config) if `uri` is not an address of any kind."""
    try:
        parts = _split(uri)
        if parts.scheme in _WITH_PORTS:
            _ = parts.port
    except ValueError as error:
        raise ActionFailed(f"'{shown(uri)}' is not a valid address: {error}", "bad_config") from error


def _split(uri: str) -> SplitResult:
    if found := _CONTROL.search(uri):
        raise ValueError(f"it contains the control character {found[0]!r}")
    parts = urlsplit(uri)
    if parts.scheme in HTTP and parts.port == 0:  # `port` itself raises ValueError for other invalid ports
        raise ValueError("port 0 is not valid")
    return parts


def _host(parts: SplitResult) -> str:
    """Host and port as they are sent to the server."""
    name = parts.hostname
    if not name:
        raise ValueError("the host is missing")
    if ":" in name:
        if not re.fullmatch(r"[0-9a-f:.]+(%[\w.-]+)?", name, re.ASCII):
            raise ValueError(f"{name!r} is not a valid host address")
        host = f"[{name}]"
    else:
        try:
            host = name if name.isascii() else name.encode("idna").decode()
        except UnicodeError as error:
            raise ValueError(f"{name!r} is not a valid host name: {error}") from error
        if not _HOST.fullmatch(host):
            raise ValueError(f"{name!r} is not a valid host name")
    return host if parts.port is None else f"{host}:{parts.port}"
