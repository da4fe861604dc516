"""What registries and nodes answer about an image that cannot be pulled."""

from __future__ import annotations

import re

from kedge.engines.cluster.base import EndKind
from kedge.engines.kubernetes.pods import kinds

# In this order. The answers of containerd, CRI-O and Docker, in lower case.
_ANSWERS = (
    (kinds.NODE_DISK, re.compile(r"no space left on device")),
    (kinds.REGISTRY_BUSY, re.compile(
        r"toomanyrequests|too many requests|pull rate limit|\b429\b|\b50[0-9] |internal server error|bad gateway|"
        r"service unavailable|gateway time-?out|registryunavailable")),
    (kinds.WRONG_PROCESSOR, re.compile(r"no match(?:ing manifest)? for (?:platform|\w+/\w+)|exec format error")),
    (kinds.REGISTRY_UNREACHABLE, re.compile(
        r"no such host|x509: |server gave http response to https|no route to host|network is unreachable|"
        r"temporary failure in name resolution|server misbehaving|proxyconnect")),
    (kinds.NO_ACCESS, re.compile(
        r"pull access denied|insufficient_scope|authorization failed|unauthorized|\b40[13] |forbidden|"
        r"authentication required|no basic auth|denied: ")),
    (kinds.BAD_NAME, re.compile(r"invalid reference format|must be lowercase|couldn't parse image")),
    (kinds.NO_IMAGE, re.compile(r"not found|manifest unknown|name unknown|does not exist|no such image|\b404 ")),
    (kinds.REGISTRY_BUSY, re.compile(
        r"connection refused|connection reset|i/o timeout|tls handshake timeout|deadline exceeded|eof\b|timeout")),
)  # fmt: skip
_WRAPPED = re.compile(
    r"(?:rpc error: code = \w+ desc = |failed to pull and unpack image \"[^\"]*\": |failed to pull image \"[^\"]*\": |"
    r"failed to resolve reference \"[^\"]*\": |failed to do request: |failed to resolve image \"[^\"]*\": |"
    r"error response from daemon: )",
    re.IGNORECASE,
)
_BACK_OFF = re.compile(r"Back-off pulling image \"[^\"]*\"(?:: \w+: )?")


def kind_of(answer: str) -> EndKind:
    """What it means for the task if it stays like this."""
    text = f"{answer.lower()} "
    return next((kind for kind, pattern in _ANSWERS if pattern.search(text)), kinds.NOT_CREATED)


def plain(message: str) -> str:
    """The registry's own words, without what the layers above have put before it. Empty if there are none: a node that
    waits before it pulls again does not always repeat them."""
    return _WRAPPED.sub("", _BACK_OFF.sub("", message)).strip(" :")
