"""A site's or a user's own rules beside the packaged ones.

stock/*.toml + ../causes.toml --compile.py--> compiled.json --packaged.py--> RuleSet
a user's file.toml --source.py--> $XDG_CACHE_HOME/kedge/rules/<sha256>.json --load()--> RuleSet
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kedge import untrusted, user_files, xdg
from kedge.diagnose.rules import compiled_rules, source
from kedge.diagnose.rules.compiled_rules import CompiledRules
from kedge.diagnose.rules.packaged import content
from kedge.diagnose.rules.ruleset import RuleSet
from kedge.errors import CannotRun, InputError
from kedge.own_files import replace_file

_LARGEST_COMPILED = 256 << 20  # bytes
FORMAT = 3  # of a compiled file; part of the cache's key


def load(paths: Sequence[Path]) -> RuleSet:
    """Load the packaged rules and a site's or a user's files; a rule replaces an earlier one with the same name.

    InputError names file, rule and reason.
    """
    stock = content()
    return RuleSet(stock, *(_cached(path, set(stock.causes)) for path in paths))


def compiled(path: Path) -> bytes:
    """A file's rules in the form that the runtime reads. InputError names file, rule and reason."""
    return compiled_rules.text(_cached(path, set(content().causes)))


def _cached(path: Path, causes: set[str]) -> CompiledRules:
    import hashlib  # only where there are files besides the packaged rules

    try:
        text = user_files.read(path, source.LARGEST)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    key = hashlib.sha256(b"%d %s " % (FORMAT, " ".join(sorted(causes)).encode()) + text).hexdigest()
    folder = _cache_folder()
    if folder is None:
        return compiled_rules.of(source.rules(path, causes))
    stored = folder / f"{key}.json"
    try:
        rules = compiled_rules.parse(untrusted.read_path(stored, _LARGEST_COMPILED))
    except (OSError, ValueError):
        rules = compiled_rules.of(source.rules(path, causes))
        _store(stored, compiled_rules.text(rules))
    return rules


def _cache_folder() -> Path | None:
    """The cache folder for compiled rules. None if the user has no home folder."""
    with suppress(CannotRun):
        return Path(xdg.cache(xdg.RULES, os.environ))
    return None


def _store(path: Path, content: bytes) -> None:
    """Write a cache file atomically. A cache that cannot be written is no error."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content, synced=False)  # a file that is cut off is not valid JSON
