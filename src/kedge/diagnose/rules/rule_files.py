"""A site's or a user's own rules beside the packaged ones.

stock/*.toml + ../causes.toml --compile.py--> compiled.json --packaged.py--> RuleSet
a user's file.toml --source.py--> $XDG_CACHE_HOME/kedge/rules/<sha256> --load()--> RuleSet
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
FORMAT = 4  # of a compiled file; part of the cache's key


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
    try:
        text = user_files.read(path, source.LARGEST)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    key = _digest(b"%d %s " % (FORMAT, " ".join(sorted(causes)).encode()) + text)
    folder = _cache_folder()
    if folder is None:
        return compiled_rules.of(source.rules(path, causes))
    stored = folder / key
    try:
        rules = _stored(stored)
    except (OSError, ValueError):
        rules = compiled_rules.of(source.rules(path, causes))
        _store(stored, rules)
    return rules


def _cache_folder() -> Path | None:
    """The cache folder for compiled rules. None if the user has no home folder."""
    with suppress(CannotRun):
        return Path(xdg.cache(xdg.RULES, os.environ))
    return None


def _stored(path: Path) -> CompiledRules:
    """The rules in a cache file. OSError; ValueError if it is damaged. Its first line is the digest of the rest, which
    is parsed only where a log needs it: too late to do without the file."""
    digest, _, content = untrusted.read_path(path, _LARGEST_COMPILED).partition(b"\n")
    if digest.decode() != _digest(content):
        raise ValueError("the file is damaged")
    return compiled_rules.parse(content)


def _store(path: Path, rules: CompiledRules) -> None:
    """Write a cache file. A cache that cannot be written is no error."""
    content = compiled_rules.text(rules)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, b"%s\n%s" % (_digest(content).encode(), content), synced=False)


def _digest(content: bytes) -> str:
    import hashlib  # only where there are files besides the packaged rules

    return hashlib.sha256(content).hexdigest()
