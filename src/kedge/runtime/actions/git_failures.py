"""Finding the cause of a failure, and whether it is transient, from git's messages."""

from __future__ import annotations

import re

from kedge.runtime.actions import http_headers
from kedge.runtime.actions.base import ActionFailed

_DNS_TRIES = 3

# Matched before the transient ones, because a refusal is often followed by a line that looks transient.
_PERMANENT = (
    (r"returned error: 40[13]\b|Authentication failed|could not read (?:Username|Password)|Permission denied|"
     r"terminal prompts disabled|Host key verification failed|HTTP Basic: Access denied", "remote_access_denied"),
    (r"returned error: 404\b|repository '[^']*' (?:not found|does not exist)|Repository not found|"
     r"does not appear to be a git repository", "bad_config"),
    (r"unable to find remote helper|'remote-\S*' is not a git command|bad/illegal format|[Pp]ort number|[Bb]ad port|"
     r"is not a valid repository name|"
     r"rotocol '.*' (?:is )?not supported|transport '.*' not allowed", "bad_config"),
    (r"No space left on device|Disk quota exceeded", "disk_full"),
    (r"Remote branch .* not found|couldn't find remote ref|not our ref|did not match any file|not a tree|"
     r"unadvertised object|unknown option|unknown switch", "bad_config"),
    (r"already exists and is not an empty directory", "output_path_error"),
    (r"server certificate verification failed|SSL certificate problem", "remote_access_denied"),
)  # fmt: skip
_DNS = r"Could not resolve (?:host|proxy)|name resolution|Name or service not known|nodename nor servname"
_TRANSIENT = (
    r"returned error: (?:408|429|5\d\d)\b|Too Many Requests|Connection (?:reset|refused|timed out|closed)|"
    r"(?:Operation|Resolving) timed out|Operation too slow|[Ee]arly EOF|unexpected disconnect|RPC failed|"
    r"remote end hung up|Failed to connect|Couldn't connect|Empty reply|transfer closed|Recv failure|Send failure|"
    r"recv error|SSL_ERROR_SYSCALL|SSL_connect|HTTP/2 (?:stream|framing)|kex_exchange_identification|"
    r"No route to host|Network is unreachable|bytes of body are still expected"
)
_RETRY_AFTER = re.compile(r"(?i)retry[- ]after:?\s*([0-9]+)")


def explain(output: str, code: int) -> ActionFailed:
    """The failure that a git command's output describes."""
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"fatal:|error:|remote:.*(?i:error|denied)", line)] or lines[-1:]
    message = errors[-1].strip() if errors else f"git exited with code {code}"
    for pattern, cause in _PERMANENT:
        if re.search(pattern, output):
            reason = next((line.strip() for line in errors if re.search(pattern, line)), message)
            return ActionFailed(reason, cause)
    retry_after = _RETRY_AFTER.search(output)
    if re.search(_DNS, output):
        return ActionFailed(message, "network_unreachable", transient=True, tries=_DNS_TRIES)
    if re.search(_TRANSIENT, output):
        delay = http_headers.wait_sec(retry_after[1]) if retry_after else None
        return ActionFailed(message, "network_transient", transient=True, delay_sec=delay)
    return ActionFailed(message)
