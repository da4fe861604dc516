"""Masking, and that secret values reach neither logs nor the run folder."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import subprocess
import sys
from base64 import b64encode, encodebytes, urlsafe_b64encode
from functools import cache
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from kedge import contract
from kedge.contract import Callback, SecretRef, Step
from kedge.masking import SHORTEST_LINE
from kedge.runtime.logs.mask import AT_ONCE, MASKED, Finder, Mask, finder, masked
from kedge.runtime.logs.secret_forms import maskable

TOKEN = "s3cr3t-t0ken"
QUOTED = 'it\'s "x" a~b #c:d=e$f`g\\h!i,j{k}<é>'
ROWS = [b64encode(bytes(range(n, n + 48))).decode() for n in (0, 99)]
KEY = "\n".join(["-----BEGIN PRIVATE KEY-----", *ROWS, "-----END PRIVATE KEY-----", ""])


def url_form(value):
    return quote(value, safe="").encode()


def url_plus(value):
    return quote_plus(value).encode()


def url_lower(value):
    return re.sub(rb"[^A-Za-z0-9_.~-]", lambda byte: b"%%%02x" % ord(byte[0]), value)


letters = st.text("ab", min_size=8, max_size=12)


def masked_at_once(text, secrets):
    """The definition of masking: each run of bytes that belongs to a secret is replaced."""
    hidden = bytearray(len(text))
    for secret in secrets:
        for place in range(len(text)):
            if text.startswith(secret, place):
                hidden[place : place + len(secret)] = b"\1" * len(secret)
    runs = re.finditer(rb"\x01+|\x00+", hidden)
    return b"".join(MASKED if run[0][0] else text[slice(*run.span())] for run in runs)


def masked_in_pieces(found, text, cuts):
    mask, result = Mask(found), b""
    for cut in [*cuts, len(text)]:
        piece, text = text[:cut], text[cut:]
        result += piece if mask.lets_pass(bytearray(piece + text), len(piece)) else mask.feed(piece)
    return result + mask.finish()


@given(
    secrets=st.lists(letters, min_size=1, max_size=4),
    text=st.lists(st.one_of(st.text("ab", max_size=9), letters, st.integers(0, 3)), max_size=20),
    cuts=st.lists(st.integers(0, 12)),
)
def test_the_result_does_not_depend_on_the_cuts(secrets, text, cuts):
    data = "".join(part if isinstance(part, str) else secrets[part % len(secrets)] for part in text).encode()
    assert masked_in_pieces(finder(secrets), data, cuts) == masked_at_once(data, maskable(secrets))


anything = st.text(st.characters(codec="utf-8"), min_size=8, max_size=80)


@given(
    secrets=st.lists(anything, min_size=1, max_size=3),
    text=st.lists(st.one_of(st.binary(max_size=9), st.integers(0, 999)), max_size=20),
    cuts=st.lists(st.integers(0, 200)),
)
def test_neither_for_any_form_of_any_secret(secrets, text, cuts):
    forms = maskable(secrets)
    data = b"".join(part if isinstance(part, bytes) else forms[part % len(forms)] for part in text)
    result = masked_in_pieces(finder(secrets), data, cuts)
    assert result == masked_at_once(data, forms)
    assert not any(form in part for part in result.split(MASKED) for form in forms)


def test_pieces_without_secrets_pass_and_others_do_not():
    """Wherever a secret lies in much output, also at the end and across the places where the search is divided."""
    mask, text = Mask(finder([TOKEN])), bytearray(b"................\n" * 40_000)
    assert mask.lets_pass(text, len(text))
    for at in (0, 100_001, *range(AT_ONCE - 13, AT_ONCE + 13), 2 * AT_ONCE - 6, len(text) - len(TOKEN)):
        there = text[:at] + TOKEN.encode() + text[at + len(TOKEN) :]
        assert not mask.lets_pass(there, len(there)), at
        assert not mask.lets_pass(there, at + 4), at
        assert mask.lets_pass(there, at), at


SITE = str(Path(re2.__file__).parent.parent)


@pytest.mark.parametrize("secrets", [[TOKEN], [KEY, QUOTED], [f"{n}{TOKEN}" for n in range(100)], ["        password"]])
@pytest.mark.parametrize("site", [SITE, None])
def test_much_output_at_once(secrets, site, monkeypatch):
    """Enough data for the RE2 matcher to be used; without RE2, a loop is."""
    if site is None:
        monkeypatch.setitem(sys.modules, "re2", None)
    forms = maskable(secrets)
    noise = bytes(range(256)) * 10
    data = b"".join(noise[n % 8 :] + form for n, form in enumerate(forms)) + noise * 99
    found = Finder(forms, site)
    expected = b"".join(noise[n % 8 :] + MASKED for n in range(len(forms))) + noise * 99
    for _ in range(2):
        assert masked(data, found) == expected
    assert bool(found._matcher) == bool(site)


def test_only_a_possible_beginning_is_held_back():
    mask = Mask(finder(["password1"]))
    assert mask.feed(b"prompt: pass") == b"prompt: "
    assert mask.feed(b"ed\n") == b"passed\n"


def test_short_values_are_not_masked():
    found = maskable(["1234567", "äöüß", "", "12345678"])
    assert {b"12345678", "äöüß".encode()} <= set(found)
    assert not any(form in b"1234567" for form in found)


@cache
def by_bash(value, form, locale="C.UTF-8"):
    script = {
        "%q": 'printf %q "$x"',
        "@Q": 'printf %s "${x@Q}"',
        "declare": "declare -p x",
        "trace": '(set -x; : "$x") 2>&1',
    }[form]
    return subprocess.run(
        ["bash", "-c", script], env={"x": value, "LC_ALL": locale}, stdout=subprocess.PIPE, check=True
    ).stdout


@pytest.mark.parametrize(
    "value",
    [QUOTED, KEY, f"{KEY}{QUOTED}", f"~{QUOTED}", '"double" only', "'single' only", "a\x01b\x1b[0m\tc\x7fé\U0001f600"],
)
@pytest.mark.parametrize(
    "written",
    [
        lambda value: json.dumps({"a": [value]}),
        lambda value: json.dumps({"a": [value]}, ensure_ascii=False),
        lambda value: json.dumps(value).replace("/", "\\/"),
        lambda value: repr({"a": value}),
        lambda value: repr(value + "'" + '"'),
        lambda value: repr(value + '"'),
        lambda value: repr(value + "'"),
        lambda value: ascii([value]),
        lambda value: repr(value.encode()),
        lambda value: repr(b"'" + value.encode()),
        lambda value: value.encode().hex(),
        lambda value: value.encode().hex().upper(),
        lambda value: encodebytes(value.encode()).decode(),
        lambda value: "  " + value.replace("\n", "\n  "),
        shlex.quote,
        quote,
        quote_plus,
        lambda value: by_bash(value, "%q").decode(),
        lambda value: by_bash(value, "%q", "C").decode(),
        lambda value: by_bash(value, "@Q").decode(),
        lambda value: by_bash(value, "declare").decode().removeprefix("declare -x x="),
        lambda value: by_bash(value, "trace").decode(),
        lambda value: subprocess.run(["base64"], input=value, encoding="utf-8", stdout=subprocess.PIPE).stdout,
        lambda value: subprocess.run(["xxd", "-p"], input=value, encoding="utf-8", stdout=subprocess.PIPE).stdout,
    ],
)  # fmt: skip
def test_what_programs_make_of_a_secret(value, written):
    text = written(value).encode()
    found = masked(text, finder([value])).replace(b"PRIVATE KEY", b"")
    assert MASKED in found
    pieces = [text[at : at + SHORTEST_LINE] for at in range(len(text) - SHORTEST_LINE + 1)]
    assert not [piece for piece in pieces if piece in found and not re.search(b"---|\n", piece)]


def test_lines_that_any_text_may_have_are_no_secrets():
    text = b"-----BEGIN PRIVATE KEY-----\nshort line\n"
    assert masked(text, finder([KEY, f"short line\n{QUOTED}"])) == text


def test_a_long_secret_is_masked_in_pieces_and_costs_little():
    value = "".join(chr(33 + n * n % 90) for n in range(1 << 17))
    found = finder([value])
    assert masked(f"<{value}>".encode(), found) == b"<" + MASKED + b">"
    assert masked(f"<{value[:8190]}".encode(), found) == b"<" + MASKED
    assert sum(map(len, maskable([value] + [f"{n}{value}" for n in range(20)]))) < 64 << 20


@given(
    secret=st.text(st.characters(codec="utf-8"), min_size=8, max_size=40),
    around=st.tuples(st.binary(max_size=8), st.binary(max_size=8)),
    cuts=st.lists(st.integers(1, 30)),
    form=st.sampled_from([bytes, b64encode, urlsafe_b64encode, url_form, url_plus, url_lower]),
)
def test_no_form_of_a_secret_appears_whatever_the_cuts(secret, around, cuts, form):
    value = secret.encode()
    before, after = around
    if form in (b64encode, urlsafe_b64encode):
        text = form(before + value + after)
        certain = form(bytes(len(before)) + value + bytes(len(after)))
        start, end = -(-len(before) * 8 // 6), (len(before) + len(value)) * 8 // 6
        hidden = certain[start:end]
        assert hidden in text
    else:
        hidden = form(value)
        text = before + hidden + after
    result = masked_in_pieces(finder([secret]), text, cuts)
    assert MASKED in result
    assert hidden not in result


def test_a_header_with_the_secret_in_base64_is_masked(secret_attempt):
    attempt = secret_attempt
    attempt.run(f"printf 'Authorization: Basic %s\n' $(printf %s me:{TOKEN} | base64)")
    said = attempt.stream("user-stdout")
    assert said.startswith(b"Authorization: Basic bWU6******")
    assert b64encode(TOKEN.encode())[:8] not in said


@pytest.fixture
def secret_attempt(attempt, tmp_path):
    """An attempt with secrets."""
    folder = tmp_path / "secrets"
    folder.mkdir(mode=0o700)
    values = {"token": TOKEN, "keys[0].name": "first-key-value", "short": "abc"}
    (folder / contract.SECRET_VALUES).write_text(json.dumps(values))
    attempt.spec = attempt.spec._replace(secrets_dir=str(folder))
    return attempt


def command(*parts):
    """A text in which every word that begins with `$` is the key of a secret."""
    return tuple(SecretRef(part[1:], f"<% $secrets.{part[1:]} %>") if part.startswith("$") else part for part in parts)


def test_secrets_are_rendered_and_never_reach_the_run_folder(secret_attempt):
    attempt = secret_attempt
    hook = Step("login", (Callback("taskStarts", command("echo log in with ", "$keys[0].name")),))
    attempt.spec = attempt.spec._replace(
        steps=(hook,), command=command("printf '%s\\n' ", "$token", "; printf '", "$token", "' >&2; echo $((5 + 6))")
    )
    assert attempt.run() == 0
    assert attempt.stream("user-stdout") == b"******\n11\n"
    assert attempt.stream("user-stderr") == b"******"
    assert "log in with ******" in attempt.log
    for folder, _, names in os.walk(attempt.folder):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                with open(path, "rb") as file:
                    text = file.read()
                assert TOKEN.encode() not in text, path
                assert b"first-key-value" not in text, path
                assert b64encode(TOKEN.encode())[:-2] not in text, path


def test_a_script_with_secrets_lies_beside_them(secret_attempt):
    attempt = secret_attempt
    attempt.spec = attempt.spec._replace(command=command("[ ", "$token", f" = {TOKEN} ]"))
    assert attempt.run() == 0
    script = attempt.folder / "pai/runtime.d/user.sh"
    assert script.is_symlink()
    target = script.resolve()
    assert target.is_relative_to(attempt.spec.secrets_dir)
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(target.parent.stat().st_mode) == 0o700
    assert TOKEN in target.read_text()
    assert (attempt.folder / "pai/secrets").resolve() == target.parent.parent


def test_a_secret_in_pieces_is_masked(secret_attempt):
    attempt = secret_attempt
    pieces = "; ".join(f"printf %s '{letter}'; sleep 0" for letter in TOKEN)
    attempt.run(f"{pieces}; echo; printf %s {TOKEN[:5]}")
    assert attempt.stream("user-stdout") == b"******\n" + TOKEN[:5].encode()


def test_masking_can_be_switched_off(secret_attempt):
    secret_attempt.spec = secret_attempt.spec._replace(mask=False)
    secret_attempt.run(f"echo {TOKEN}")
    assert secret_attempt.stream("user-stdout").decode() == f"{TOKEN}\n"


@pytest.mark.parametrize("where", ["command", "hook"])
def test_an_unknown_secret_is_named_before_anything_runs(secret_attempt, where):
    attempt = secret_attempt
    text = command("echo ", "$missing.key")
    if where == "command":
        attempt.spec = attempt.spec._replace(command=text)
    else:
        attempt.spec = attempt.spec._replace(steps=(Step("item", (Callback("containerExit", text),)),))
    assert attempt.run() == 255
    assert attempt.report["reason"] == contract.CANNOT_START
    assert "missing.key" in attempt.report["message"]
    assert attempt.stream("user-all") == b""


def test_secrets_that_cannot_be_read(secret_attempt):
    path = f"{secret_attempt.spec.secrets_dir}/{contract.SECRET_VALUES}"
    with open(path, "w") as file:
        file.write("{")
    secret_attempt.spec = secret_attempt.spec._replace(command=command("$token"))
    assert secret_attempt.run() == 255
    assert path in secret_attempt.report["message"]
