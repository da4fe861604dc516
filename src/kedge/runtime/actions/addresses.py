"""Addresses: which can be asked at all, what is sent of them, and what messages may show."""

from __future__ import annotations

import re
import string
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from kedge.runtime.actions.base import ActionFailed

HTTP = ("http", "https")
_HOST = re.compile(r"(?!.{254})([a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_WITH_PORTS = ("ssh", "git", "git+ssh", "ssh+git", "sftp", "ftp", "ftps")  # others have what they like behind a ":"
_LONGEST = 300  # characters of an address in a message


class Target(NamedTuple):
    """What to ask, and whom: `url` is ASCII, without credentials and fragment. `username` is None without any."""

    url: str
    username: str | None = None
    password: str = ""


def parse(uri: str) -> Target:
    """An http(s) address. ActionFailed (bad_config) says what is wrong with it."""
    try:
        parts = _split(uri)
        host = _host(parts)
    except ValueError as error:
        raise ActionFailed(f"'{shown(uri)}' is no address: {error}", "bad_config") from error
    path, query = (quote(part, safe=string.punctuation) for part in (parts.path or "/", parts.query))
    url = parts._replace(netloc=host, path=path, query=query, fragment="").geturl()
    if parts.username is None:
        return Target(url)
    return Target(url, unquote(parts.username), unquote(parts.password or ""))


def redirected(base: str, location: str) -> str:
    """The address that a header `Location` (decoded as Latin-1) means, without credentials. ActionFailed says what
    is wrong with it."""
    text = quote(location.strip(), safe=string.punctuation, encoding="iso-8859-1", errors="replace")
    try:
        if not text:
            raise ValueError("it has no Location")
        address = urljoin(base, text)
        parts = _split(address)
        if parts.scheme not in HTTP:
            raise ValueError("only http and https are followed")
        return parse(address).url
    except ValueError as error:
        message = f"{shown(base)} redirects to '{shown(location)}', which cannot be followed: {error}"
    except ActionFailed as failed:
        message = f"{shown(base)} redirects to what cannot be followed: {failed}"
    raise ActionFailed(message, "data_file_missing")


def shown(uri: str) -> str:
    """An address for messages, whatever it holds: without user, password and query, where secrets are."""
    scheme, found, rest = uri.partition("://")
    if found:
        before, slash, path = re.split("[?#]", rest, maxsplit=1)[0].partition("/")
        uri = f"{scheme}://{before.rpartition('@')[2]}{slash}{path}"
    return plain(uri)


def plain(text: str) -> str:
    """What somebody else has written, for a message: short, and with escapes for what cannot be seen."""
    cut = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in cut)


def check(uri: str) -> None:
    """ActionFailed (bad_config) for what is no address of any kind."""
    try:
        parts = _split(uri)
        if parts.scheme in _WITH_PORTS:
            _ = parts.port
    except ValueError as error:
        raise ActionFailed(f"'{shown(uri)}' is no address: {error}", "bad_config") from error


def _split(uri: str) -> SplitResult:
    if found := _CONTROL.search(uri):
        raise ValueError(f"it holds the control character {found[0]!r}")
    parts = urlsplit(uri)
    if parts.scheme in HTTP and parts.port == 0:  # else ValueError for a port that cannot be
        raise ValueError("there is no port 0")
    return parts


def _host(parts: SplitResult) -> str:
    """Host and port as they are asked for."""
    name = parts.hostname
    if not name:
        raise ValueError("it names no host")
    if ":" in name:
        if not re.fullmatch(r"[0-9a-f:.]+(%[\w.-]+)?", name, re.ASCII):
            raise ValueError(f"{name!r} is no address of a host")
        host = f"[{name}]"
    else:
        try:
            host = name if name.isascii() else name.encode("idna").decode()
        except UnicodeError as error:
            raise ValueError(f"{name!r} is no name of a host: {error}") from error
        if not _HOST.fullmatch(host):
            raise ValueError(f"{name!r} is no name of a host")
    return host if parts.port is None else f"{host}:{parts.port}"
