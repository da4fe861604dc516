"""The environment variables that a submitter gives: `--env NAME=VALUE`, `--env NAME` and `--env-file FILE`.

Files have the format of `docker run --env-file`: a line is NAME=VALUE or NAME; quotes have no meaning; empty lines and
lines that start with `#` are skipped. A name alone takes its value from the submitter's own environment, and is treated
as a secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kedge import user_files
from kedge.contract import ENVIRONMENT_STRING_LIMIT, SecretRef, Text
from kedge.errors import InputError
from kedge.spec.environment import NAME_RULE, is_name, is_reserved, why_reserved
from kedge.spec.message_text import bare, quote

_LARGEST = 4 << 20  # bytes of a file
_QUOTES = "\"'"


class GivenEnvironment(NamedTuple):
    """`plain` are the variables with their values; `taken` are those from the submitter's own environment, which are
    secrets; no name is in both. `notes` are for the submitter."""

    plain: Mapping[str, str]
    taken: Mapping[str, str]
    notes: tuple[str, ...] = ()


class _GivenVariable(NamedTuple):
    """NAME=VALUE, or NAME if the value is None, and where it is written."""

    where: str
    name: str
    value: str | None


def read(options: Sequence[str], files: Sequence[str], shell: Mapping[str, str]) -> GivenEnvironment:
    """The variables of the files in order, then those of `--env`; later ones take precedence. `shell` is the
    environment that NAME alone refers to. InputError lists everything that is wrong and shows no values."""
    entries = [*(entry for file in files for entry in _of_file(file)), *map(_of_option, options)]
    if wrong := [f"{entry.where}: {why}" for entry in entries if (why := _wrong(entry, shell))]:
        raise InputError(*wrong)
    values = {entry.name: entry.value for entry in entries}
    plain = {name: value for name, value in values.items() if value is not None}
    taken = {name: shell[name] for name, value in values.items() if value is None}
    return GivenEnvironment(plain, taken, tuple(_quoted(entries)))


def wrong(plain: Mapping[str, str], taken: Mapping[str, str]) -> list[str]:
    """What is wrong with variables that are given as values, through the Python API."""
    entries = (_GivenVariable(f"the variable {bare(name)}", name, value) for name, value in {**plain, **taken}.items())
    return [f"{entry.where}: {why}" for entry in entries if (why := _wrong(entry, {}))]


def reference(name: str) -> SecretRef:
    """The placeholder for the value of a variable that was taken from the submitter's own environment."""
    return SecretRef(f"--env {name}", f"(the submitter's ${name})")


def texts(plain: Mapping[str, str], taken: Mapping[str, str]) -> dict[str, Text]:
    """The variables as texts, with placeholders for those that are secrets."""
    return {**{name: (value,) if value else () for name, value in plain.items()},
            **{name: (reference(name),) for name in taken}}  # fmt: skip


def _of_option(text: str) -> _GivenVariable:
    name, equals, value = text.partition("=")
    return _GivenVariable(f"--env {bare(name)}".rstrip(), name, value if equals else None)


def _of_file(path: str) -> Iterator[_GivenVariable]:
    for number, line in enumerate(_lines(path), 1):
        text = line.lstrip()
        if text and not text.startswith("#"):
            name, equals, value = text.partition("=")
            yield _GivenVariable(f"{path}:{number}", name, value if equals else None)


def _lines(path: str) -> list[str]:
    try:
        data = user_files.read(path, _LARGEST)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"--env-file {path}: it cannot be read: {why}") from None
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: it is not UTF-8 text") from None


def _wrong(entry: _GivenVariable, shell: Mapping[str, str]) -> str | None:
    """What is wrong with an entry; the value may be a secret and is not shown."""
    if not entry.name:
        return "the name is missing; write it as NAME=VALUE, or NAME for the value in your shell"
    if entry.name.startswith("export "):
        return "the format has no 'export'; write only NAME=VALUE"
    if not is_name(entry.name):
        return f"the name {quote(entry.name)} {NAME_RULE}"
    if is_reserved(entry.name):
        return why_reserved(entry.name)
    value = shell.get(entry.name) if entry.value is None else entry.value
    if value is None:
        return f"your shell does not export {entry.name}; export it, or write {entry.name}=VALUE"
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        return f"the value of {entry.name} is not UTF-8 text without NUL"
    if (size := len(entry.name) + len(value.encode()) + 2) > ENVIRONMENT_STRING_LIMIT:  # with = and the final NUL
        return f"{entry.name} has {size} bytes; the limit is {ENVIRONMENT_STRING_LIMIT}"
    return None


def _quoted(entries: Sequence[_GivenVariable]) -> Iterator[str]:
    """A note for each value of a file in quotes, which other formats remove."""
    for where, name, value in entries:
        if value and len(value) > 1 and value[0] == value[-1] and value[0] in _QUOTES and not where.startswith("--env"):
            yield f"{where}: the quotes are part of the value of {name}, as with docker run --env-file"
