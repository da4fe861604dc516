"""Checks addresses, and formats text from other machines for messages."""

from __future__ import annotations

import httpx

_MAX_CHARACTERS = 300  # of a server's text in a message


def check(url: httpx.URL) -> httpx.URL:
    """The address itself, if it is valid. httpx.InvalidURL otherwise: without this check, the system would connect to
    port 34463 for port 99999."""
    if url.port is not None and not 0 < url.port < 65536:
        raise httpx.InvalidURL(f"there is no port {plain(str(url.port))}")
    if not url.host:
        raise httpx.InvalidURL("it has no host")
    try:
        host = url.host  # decoded
        host.encode("idna")
    except UnicodeError as error:
        raise httpx.InvalidURL(f"the host name is invalid: {error}") from None
    return url


def plain(text: str) -> str:
    """Text from another machine for a message: shortened, with unprintable characters escaped."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text[:_MAX_CHARACTERS])
