"""Addresses that can be asked at all, and how much of an answer a message shows."""

from __future__ import annotations

import httpx

_LONGEST = 300  # characters of what a server says


def check(url: httpx.URL) -> httpx.URL:
    """The same address. httpx.InvalidURL for one that nobody can ask: the system would ask port 99999 of port 34463."""
    if url.port is not None and not 0 < url.port < 65536:
        raise httpx.InvalidURL(f"there is no port {plain(str(url.port))}")
    if not url.host:
        raise httpx.InvalidURL("it names no host")
    try:
        host = url.host  # decoded
        host.encode("idna")
    except UnicodeError as error:
        raise httpx.InvalidURL(f"the host is no name: {error}") from None
    return url


def plain(text: str) -> str:
    """What another machine says, for a message: short, and with escapes for what cannot be seen."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text[:_LONGEST])
