"""The termination message: a short text about why a container failed, in the form that OpenPAI's tools read.

    [PAI_RUNTIME_ERROR_START]
    exitCode: 234
    originUserExitCode: 3
    matchedUserLogString: Segmentation fault
    errorLogs:
      user: |
        …
    [PAI_RUNTIME_ERROR_END]

Kubernetes keeps 4096 bytes of it, so the message is never longer: parts of it are cut, the least useful first.
"""

from __future__ import annotations

from kedge.diagnose.exit_spec import excerpts, yaml_text
from kedge.light.types import Any, NamedTuple

START, END = "[PAI_RUNTIME_ERROR_START]", "[PAI_RUNTIME_ERROR_END]"
LIMIT = 4096  # bytes, of everything
BODY_LIMIT = LIMIT - len(START) - len(END) - 2
MATCH_LIMIT = 2048  # bytes of a matched text
USER_LINES, PLATFORM_LINES = 15, 10
_MATCHED = {"user": "matchedUserLogString", "platform": "matchedPlatformLogString"}


class Span(NamedTuple):
    """A place in a log, in bytes."""

    start: int
    end: int


class ExitSpecVerdict(NamedTuple):
    """The exit specification's result for a failure: the container's code, and where in the logs its pattern matched.

    `ecc_error` is the GPU state that the pattern required, None if it required none."""

    code: int
    user: Span | None = None
    platform: Span | None = None
    ecc_error: bool | None = None


def message(verdict: ExitSpecVerdict, user_code: int | None, user_log: bytes, platform_log: bytes) -> bytes:
    """The whole message in UTF-8, at most 4096 bytes. `user_code` is the command's exit code, None if it never ran."""
    body = yaml_text.dump(_fitted(_content(verdict, user_code, user_log, platform_log)))
    return f"{START}\n{body}\n{END}".encode()


def _content(verdict: ExitSpecVerdict, user_code: int | None, user_log: bytes, platform_log: bytes) -> dict[str, Any]:
    gpu = None if verdict.ecc_error is None else {"nvidiaDoubleEccError": verdict.ecc_error}
    logs = {
        "user": _excerpt(user_log, verdict.user, USER_LINES),
        "platform": _excerpt(platform_log, verdict.platform, PLATFORM_LINES),
    }
    content = {
        "exitCode": verdict.code,
        "originUserExitCode": user_code,
        "matchedUserLogString": _matched(user_log, verdict.user),
        "matchedPlatformLogString": _matched(platform_log, verdict.platform),
        "matchedGpuInfo": gpu,
        "errorLogs": {name: text for name, text in logs.items() if text},
    }
    return {key: value for key, value in content.items() if value is not None}


def _excerpt(log: bytes, span: Span | None, most: int) -> str:
    return _untagged(excerpts.around(log, *span, most) if span else excerpts.tail(log, most))


def _matched(log: bytes, span: Span | None) -> str | None:
    if span is None:
        return None
    found = excerpts.text(log[span.start : span.end][:MATCH_LIMIT]).removesuffix("\r")  # `.*` matches half of a CRLF
    return _head(_untagged(found), MATCH_LIMIT)


def _untagged(text: str) -> str:
    """The text with the tags changed: a task may print another task's message, and readers search for the tags."""
    return text.replace(START, START.replace("_", "-")).replace(END, END.replace("_", "-"))


def _fitted(content: dict[str, Any]) -> dict[str, Any]:
    """Cut the content until it fits: first the logs (the platform's before the user's), then the matched texts."""
    logs = content["errorLogs"]
    for name in ("platform", "user"):
        while (over := _over(content)) > 0 and name in logs:
            logs[name] = _cut(logs[name], over, content.get(_MATCHED[name]))
            if not logs[name]:
                del logs[name]
    for key in (_MATCHED["platform"], _MATCHED["user"]):
        while (over := _over(content)) > 0 and key in content:
            content[key] = _head(content[key], len(content[key].encode()) - over)
            if not content[key]:
                del content[key]
    return content


def _over(content: dict[str, Any]) -> int:
    return len(yaml_text.dump(content).encode()) - BODY_LIMIT


def _cut(text: str, over: int, matched: str | None) -> str:
    """Shorten a log by at least `over` bytes at its beginning. A match near the beginning is kept."""
    data = text.encode()
    at = data.find(matched.encode()) if matched else -1
    kept = data[at : len(data) - (over - at)] if 0 <= at <= over < len(data) else data[over:]
    return kept.decode("utf-8", "ignore")


def _head(text: str, size: int) -> str:
    """The first `size` bytes, or a few less to avoid splitting a character."""
    return text.encode()[: max(0, size)].decode("utf-8", "ignore")
