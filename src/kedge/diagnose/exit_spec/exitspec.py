"""The exit specification: which container code a failed command gets, with the semantics of OpenPAI's exit handler.

Entries are tried in the order of the file, and so are the patterns of an entry. All given fields of a pattern must
match; the first pattern that does determines the code. Patterns are RE2 over characters and match anywhere in a log.
"""

from __future__ import annotations

import os

from kedge import user_files
from kedge.contract import UNRECOGNISED
from kedge.diagnose import characters, regex
from kedge.diagnose.exit_spec.termination import ExitSpecVerdict, Span
from kedge.errors import InputError
from kedge.light import json, re2
from kedge.light.types import Any, Collection, Iterator, Mapping, NamedTuple, Sequence

STOCK = os.path.join(os.path.dirname(__file__), "exitspec.json")
_LARGEST = 16 << 20  # bytes
CODES = range(-8000, 257)
UNKNOWN_BEHAVIOUR = "unknown"
_BEHAVIOURS = ("transient", "transient_conflict", "permanent", UNKNOWN_BEHAVIOUR)
_FIELDS = {"exitCode": int, "userLogRegex": str, "platformLogRegex": str, "gpuInfo": dict}
# Matches every text, so a set that reports no match at all has given up. It matches at the end, because what matches
# earlier makes the rest of the search twice as slow.
_SENTINEL = rb"\z"


class Pattern(NamedTuple):
    """The conditions of a pattern; None matches anything."""

    exit_code: int | None = None
    user: str | None = None
    platform: str | None = None
    gpu_info: Mapping[str, bool] | None = None


class ExitSpecRow(NamedTuple):
    """One container code and its patterns, any of which suffices. Codes that are not determined by patterns in a
    container have none. `behaviour` is taken from the file, in lower case; None if it is not given."""

    code: int
    patterns: tuple[Pattern, ...]
    behaviour: str | None = None


class ExitSpec:
    """A specification that is ready to match."""

    def __init__(self, entries: Sequence[ExitSpecRow]) -> None:
        self.entries = tuple(entry for entry in entries if entry.patterns)
        self.rows = tuple(entries)
        patterns = [pattern for entry in entries for pattern in entry.patterns]
        self._user = _Searcher(pattern.user for pattern in patterns)
        self._platform = _Searcher(pattern.platform for pattern in patterns)

    def match(
        self, exit_code: int, user_log: bytes, platform_log: bytes, ecc_error: bool | None = None
    ) -> ExitSpecVerdict:
        """The container code of a command that failed with `exit_code`; 255 if nothing matches.

        `ecc_error` means that a GPU had uncorrectable memory errors; None if there is no GPU or it is not known.
        """
        user, platform = _SearchedLog(self._user, user_log), _SearchedLog(self._platform, platform_log)
        for entry in self.entries:
            for pattern in entry.patterns:
                if not _holds(pattern, exit_code, ecc_error):
                    continue
                in_platform, in_user = platform.find(pattern.platform), user.find(pattern.user)
                if (in_platform or pattern.platform is None) and (in_user or pattern.user is None):
                    return ExitSpecVerdict(
                        entry.code, in_user, in_platform, None if pattern.gpu_info is None else ecc_error
                    )
        return ExitSpecVerdict(UNRECOGNISED)

    def behaviours(self) -> dict[int, str]:
        """The behaviour of each row, by its code.

        A row for 255 without patterns and with UNKNOWN is left out: it makes no statement about a failure."""
        no_statement = (UNRECOGNISED, (), UNKNOWN_BEHAVIOUR)
        return {row.code: row.behaviour for row in self.rows if row.behaviour and row != no_statement}


def to_json(spec: ExitSpec) -> list[dict[str, Any]]:
    """The JSON form, which `parse` and the runtime read."""
    return [
        {
            "containerExitCode": entry.code,
            "patterns": [dict(zip(_FIELDS, pattern, strict=True)) for pattern in entry.patterns],
            "behavior": entry.behaviour and entry.behaviour.upper(),
        }
        for entry in spec.rows
    ]


def stock() -> ExitSpec:
    """The specification that comes with kedge."""
    return ExitSpec(_entries(json.loads(_content(STOCK)), STOCK))


def load(path: str) -> ExitSpec:
    """Load a site's or a user's own specification in JSON, or in YAML if PyYAML is installed. InputError if wrong."""
    try:
        text = _content(path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    return parse(_read(text, path), path)


def parse(data: Any, name: str) -> ExitSpec:
    """Make a specification from the parsed text of a file: `{spec: [entries]}` or the entries alone. Each entry has the
    form of the cluster's specification (`code`, `pattern: {runtimeContainerPatterns}`) or that of the runtime's
    (`containerExitCode`, `patterns`).

    InputError lists every entry that cannot be used, with the reason."""
    entries = _entries(data, name)
    problems = [f"{name}: {problem}" for entry in entries for problem in _unusable(entry)]
    codes = [entry.code for entry in entries]
    problems += [f"{name}: code {code} has two entries" for code in sorted(set(codes)) if codes.count(code) > 1]
    if problems:
        raise InputError(*problems)
    return ExitSpec(entries)


def is_exit_spec(path: str) -> bool:
    """Whether a file of rules is an OpenPAI exit spec, judging by its name."""
    return path.endswith((".yaml", ".yml"))


def _content(path: str) -> bytes:
    return user_files.read(path, _LARGEST)


def _read(text: bytes, path: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError(f"{path}: it is nested too deeply") from None
    except ValueError:
        pass
    import importlib  # not for JSON

    try:
        yaml = importlib.import_module("yaml")  # installed on the job's side; the runtime gets JSON
    except ImportError:
        raise InputError(f"{path}: this is not JSON, and PyYAML, which is required to read YAML, is missing") from None
    try:
        return yaml.safe_load(text)
    except RecursionError:
        raise InputError(f"{path}: it is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: impossible dates, numbers with too many digits
        raise InputError(f"{path}: {error}") from None


def _entries(data: Any, name: str) -> list[ExitSpecRow]:
    entries = data.get("spec") if isinstance(data, dict) else data
    if not isinstance(entries, list):
        raise InputError(f"{name}: an exit specification must be a list of entries, or a mapping with it as `spec`")
    problems: list[str] = []
    found: list[ExitSpecRow] = []
    for number, entry in enumerate(entries, 1):
        try:
            found.append(_entry(entry))
        except ValueError as error:
            problems.append(f"{name}: entry {number}: {error}")
    if problems:
        raise InputError(*problems)
    return found


def _entry(data: Any) -> ExitSpecRow:
    if not isinstance(data, dict):
        raise ValueError("is not a mapping")
    code = data.get("containerExitCode", data.get("code"))
    if not isinstance(code, int) or isinstance(code, bool) or code not in CODES:
        raise ValueError(f"`code` must be a number from {CODES[0]} to {CODES[-1]}, not {code!r:.60}")
    pattern = data.get("pattern") or {}
    if not isinstance(pattern, dict):
        raise ValueError("`pattern` must be a mapping with `runtimeContainerPatterns`")
    patterns = data.get("patterns", pattern.get("runtimeContainerPatterns")) or []
    if not isinstance(patterns, list):
        raise ValueError("the patterns must be a list")
    if patterns and code > 255:
        raise ValueError(f"a container cannot exit with {code}")
    found = tuple(_pattern(pattern, code, n) for n, pattern in enumerate(patterns, 1)) if code > 0 else ()
    return ExitSpecRow(code, found, _behaviour(data.get("behavior"), code))


def _behaviour(value: Any, code: int) -> str | None:
    if value is None or (isinstance(value, str) and value.lower() in _BEHAVIOURS):
        return value and value.lower()
    raise ValueError(f"code {code}: `behavior` must be one of {', '.join(_BEHAVIOURS).upper()}, not {value!r:.60}")


def _pattern(data: Any, code: int, number: int) -> Pattern:
    where = f"code {code}, pattern {number}"
    if not isinstance(data, dict) or not any(data.get(field) is not None for field in _FIELDS):
        raise ValueError(f"{where} is empty: it would match every failure")
    if unknown := sorted(set(map(str, data)) - set(_FIELDS)):
        raise ValueError(f"{where}: unknown key {', '.join(unknown)}; known: {', '.join(_FIELDS)}")
    for field, kind in _FIELDS.items():
        if not isinstance(data.get(field), kind | None):
            raise ValueError(f"{where}: `{field}` has the wrong type: {data[field]!r:.60}")
    return Pattern(*map(data.get, _FIELDS))


def _unusable(entry: ExitSpecRow) -> Iterator[str]:
    for text in (text for pattern in entry.patterns for text in (pattern.user, pattern.platform) if text is not None):
        try:
            regex.over_characters(text)
        except re2.error as error:
            reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else error
            yield f"code {entry.code}: pattern {text!r}: {reason}"


def _holds(pattern: Pattern, exit_code: int, ecc_error: bool | None) -> bool:
    """Whether everything but the logs matches the pattern. The GPU information is compared as a whole."""
    if pattern.exit_code is not None and pattern.exit_code != exit_code:
        return False
    wanted = pattern.gpu_info
    return wanted is None or bool(wanted.get("nvidiaDoubleEccError", False)) is ecc_error


class _Searcher:
    """The regular expressions for one kind of log. One pass finds which of them occur."""

    def __init__(self, texts: Iterator[str | None]) -> None:
        self._numbers = {text: n for n, text in enumerate(dict.fromkeys(t for t in texts if t is not None), 1)}
        self._set = re2.Set.SearchSet(regex.options(encoding=regex.UTF8))
        for text in (_SENTINEL, *(text.encode() for text in self._numbers)):
            self._set.Add(text)
        self._set.Compile()

    def occurring(self, log: bytes) -> Collection[str]:
        """The expressions that occur in the log; all of them if the set gave up."""
        found = self._set.Match(log)
        if found is None:  # the set needs more memory than its limit
            return self._numbers
        return {text for text, n in self._numbers.items() if n in found}


class _SearchedLog:
    """One log, searched at the first request."""

    def __init__(self, searcher: _Searcher, content: bytes) -> None:
        self._searcher = searcher
        self._content = content
        self._valid = b""
        self._occurring: Collection[str] | None = None

    def find(self, text: str | None) -> Span | None:
        """The place of the first match. None if there is none, or if `text` is None."""
        if text is None:
            return None
        if self._occurring is None:
            self._valid = characters.valid(self._content)
            self._occurring = self._searcher.occurring(self._valid)
        if text not in self._occurring:
            return None
        found = regex.over_characters(text).search(self._valid)
        return Span(*(characters.offset(self._content, self._valid, at) for at in found.span())) if found else None
