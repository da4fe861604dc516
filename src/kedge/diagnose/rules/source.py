"""Reading a rule file: TOML becomes checked plain data, or an error that names file, rule and reason.

The compiled form of a rule is a list of the FIELDS below, so that even ten thousand rules load quickly.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import re2

from kedge import user_files
from kedge.diagnose.regex import over_characters
from kedge.diagnose.rules import expression, literals
from kedge.errors import InputError

CAUSES = Path(__file__).parents[1] / "causes.toml"
LARGEST = 16 << 20  # bytes of a file of rules
ROLES = ("root", "symptom", "note")
PLACES = ("error", "any")
FIELDS = ("name", "cause", "role", "rank", "where", "exit_codes", "when", "evidence", "patterns", "remedy")
_TEXTS = ("patterns", "when", "evidence", "remedy", "matches", "rejects")
_KEYS = {"cause", "role", "rank", "where", "exit_codes", *_TEXTS}


def read(path: Path) -> dict[str, Any]:
    """The tables of a TOML file. InputError if it cannot be read or is not TOML."""
    import tomllib  # not while a task is diagnosed: only where rules are compiled

    try:
        return tomllib.loads(user_files.read(path, LARGEST).decode("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except RecursionError:
        raise InputError(f"{path}: it is nested too deeply") from None
    except ValueError as error:  # invalid UTF-8 or TOML, or a number with too many digits
        raise InputError(f"{path}: {error}") from None


def rules(path: Path, causes: set[str]) -> list[list[Any]]:
    """Every rule of a file in its compiled form. InputError lists all that is wrong."""
    compiled, problems = [], []
    for name, table in read(path).items():
        try:
            compiled.append(_rule(name, table, causes))
        except ValueError as error:
            problems.append(f"{path}: rule {name}: {error}")
    if problems:
        raise InputError(*problems)
    return compiled


def _rule(name: str, table: Any, causes: set[str]) -> list[Any]:
    if not isinstance(table, dict):
        raise ValueError("is not a table")
    _check(name, table, causes)
    patterns = [_pattern(text) for text in table["patterns"]]
    conditions = {key: [expression.parse(text) for text in table.get(key, [])] for key in ("when", "evidence")}
    compiled = [over_characters(text) for text in table["patterns"]]
    captured = {group.decode() for pattern in compiled for group in pattern.groupindex}
    used = {name for condition in conditions["when"] for name in expression.names(condition)}
    if unknown := sorted(used - captured):
        raise ValueError(f"`when` uses {', '.join(unknown)}, which no pattern captures")
    rank, where = table.get("rank", 50), table.get("where", "error")
    return [
        name, table["cause"], table["role"], rank, where, table.get("exit_codes", []),
        conditions["when"], conditions["evidence"], patterns, table.get("remedy", []),
    ]  # fmt: skip


def _check(name: str, table: dict[str, Any], causes: set[str]) -> None:
    if unknown := sorted(set(table) - _KEYS):
        raise ValueError(f"unknown key {', '.join(unknown)}; known: {', '.join(sorted(_KEYS))}")
    if name != name.lower() or not all(part.isalnum() for part in name.split("-")):
        raise ValueError("the name is not in kebab-case")
    if table.get("cause") not in causes:
        raise ValueError(f"unknown cause {table['cause']!r}" if "cause" in table else "the key `cause` is missing")
    if table.get("role") not in ROLES:
        raise ValueError(f"`role` must be one of {', '.join(ROLES)}")
    if table.get("where", "error") not in PLACES:
        raise ValueError(f"`where` must be one of {', '.join(PLACES)}")
    for key in _TEXTS:
        if not isinstance(texts := table.get(key, []), list) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"`{key}` must be a list of texts")
    if not all(isinstance(code, int) for code in table.get("exit_codes", [])):
        raise ValueError("`exit_codes` must be a list of numbers")
    if not isinstance(rank := table.get("rank", 50), int) or not 0 <= rank <= 100:
        raise ValueError("`rank` must be a number from 0 to 100")
    for key in ("patterns", "matches", "rejects"):
        if not table.get(key):
            raise ValueError(f"`{key}` is missing")


def _pattern(text: str) -> list[Any]:
    """[pattern, its required texts, whether it ignores case]. ValueError explains why a pattern is refused."""
    try:
        over_characters(text)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else error
        raise ValueError(f"pattern {text!r}: {reason}") from None
    if (required := literals.required(text)) is None:
        raise ValueError(f"pattern {text!r} has no constant text of {literals.ENOUGH} characters and would be slow")
    return [text, list(required), "(?i" in text]
