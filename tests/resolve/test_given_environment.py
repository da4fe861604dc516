"""The environment variables that a submitter gives on the command line and in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kedge.contract import ENVIRONMENT_STRING_LIMIT
from kedge.errors import InputError
from kedge.resolve.given_environment import read

from .conftest import Folder

SECRET = "hunter2hunter2"


def test_later_ones_take_precedence_and_a_name_alone_is_taken_from_the_shell(tmp_path: Path) -> None:
    first, second = tmp_path / "a.env", tmp_path / "b.env"
    first.write_bytes(b"\xef\xbb\xbfA=a\r\n  # comment\n\nB = b \n".replace(b"B =", b"B=") + b"T=plain\nU")
    second.write_text("A=b=c\nX\n")
    shell = {"T": SECRET, "U": "user", "X": "x", "OTHER": "o"}
    given = read(["T", "X=y", "C="], [str(first), str(second)], shell)
    assert given.plain == {"A": "b=c", "B": " b ", "X": "y", "C": ""}
    assert given.taken == {"U": "user", "T": SECRET}
    assert given.notes == ()


def test_quotes_in_a_file_stay_and_are_noted(tmp_path: Path) -> None:
    (tmp_path / "f").write_text(f'A=x\nB="{SECRET}"\n')
    given = read(["C='c'"], [str(tmp_path / "f")], {})
    assert given.plain["B"] == f'"{SECRET}"'
    assert given.notes == (f"{tmp_path}/f:2: the quotes are part of the value of B, as with docker run --env-file",)


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("=x", "--env: the name is missing"), ("", "--env: the name is missing"),
        (f"a b={SECRET}", "--env a b: the name 'a b' must have only letters"),
        (f"KEDGE_X={SECRET}", "--env KEDGE_X: 'KEDGE_X' is reserved"),
        ("NONE", "--env NONE: your shell does not export NONE; export it, or write NONE=VALUE"),
        ("BYTES", "--env BYTES: the value of BYTES is not UTF-8"), ("A=\udcff", "the value of A is not UTF-8"),
        ("A=" + "x" * (ENVIRONMENT_STRING_LIMIT - 2), f"A has {ENVIRONMENT_STRING_LIMIT + 1} bytes; the limit is"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_option(option: str, why: str) -> None:
    with pytest.raises(InputError) as error:
        read([option], [], {"BYTES": "\udcff"})
    assert why in str(error.value)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (f"A=1\n={SECRET}".encode(), ":2: the name is missing"),
        (f"\n{SECRET} b=1".encode(), ":2: the name"),
        (b"A=a\0b", ":1: the value of A is not UTF-8 text without NUL"),
        (b"A=1\nB=\xff\n", ":2: it is not UTF-8 text"),
        (b"export A=1", ":1: the format has no 'export'; write only NAME=VALUE"),
        (b"exported A=1", ":1: the name 'exported A' must have only letters"),
        (b"NONE\nPAI_X=1", ":1: your shell does not export NONE"),
        (None, ": it cannot be read: it is a directory"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, content: bytes | None, why: str) -> None:
    file = tmp_path / "f"
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(InputError) as error:
        read([], [str(file)], {})
    assert str(error.value).startswith(str(file)) or content is None
    assert why in str(error.value)
    if content and content.startswith(b"NONE"):
        assert f"{file}:2: 'PAI_X' is reserved" in str(error.value)  # all problems at once


def test_a_taken_variable_is_a_secret_that_replaces_those_of_the_file(folder: Folder) -> None:
    inputs = {"env": {"B": "given"}, "taken_env": {"A": SECRET}}
    resolved = folder.resolve([], inputs, extras={"kedge": {"env": {"A": "a", "B": "b", "C": "c"}}})
    [(placeholder,), *others] = resolved.roles[0].env.values()
    assert others == [("given",), ("c",)]
    assert resolved.secrets.texts[placeholder.key] == SECRET
    assert resolved.secrets.document == {}
    assert SECRET not in repr(resolved)


def test_values_from_the_python_api_are_checked_too(folder: Folder) -> None:
    with pytest.raises(InputError) as error:
        folder.resolve([], {"env": {"PAI_X": "1", "A": "b"}, "taken_env": {"B": "a\0b"}})
    found = list(map(str, error.value.problems))
    assert len(found) == 2
    assert found[0].startswith("the variable PAI_X: 'PAI_X' is reserved")
    assert found[1] == "the variable B: the value of B is not UTF-8 text without NUL"
