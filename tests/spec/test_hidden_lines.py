"""No message about a job file shows one of its secrets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.errors import InputError
from kedge.spec.parse import parse

TOKEN = "hunter2x"
NUMBER = "123456789123"
JOB = """\
protocolVersion: 2
name: j
type: job
prerequisites: [{name: img, type: dockerimage, uri: u}]
taskRoles:
  w:
    dockerImage: img
    resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 0}
    commands: [a]
"""
SECTIONS = (
    'secrets:\n  a: "T\n',
    "secrets:\n  a: 'T\n  b: c\n",
    "secrets:\n  a: T: x\n",
    "secrets:\n  a: b\n T: x\n",
    "secrets:\n  a: b\n  T\nname: k\n",
    "secrets:\n  a: %T\n",
    "secrets:\n  a: *T\n",
    "secrets:\n  a: !T x\n",
    "secrets:\n  a: !!T x\n",
    "secrets:\n  a: !!int T\n",
    'secrets:\n  a: "T\\q"\n',
    "secrets:\n\ta: T\n",
    "secrets:\n  a: T\x01\n",
    "secrets: {a: T, b: [}\n",
    'secrets: {a: "T"x}\n',
    "secrets: [T]\n",
    "secrets: T\n",
    "secrets: {a: T}\nsecrets: {b: T}\n",
    "secrets:\n  a: T\n  a: T2\n",
    "secrets: {{ T }}\n",
    "secrets: {a: &t T}\njobRetryCount: *t\n",
    "secrets: {a: &t T}\ntype: *t\n",
    "secrets: {<<: T}\n",
    "secrets: {a: &t 'T x'}\nversion: [*t]\n",
    "secrets: {a: T}\njobRetryCount: -1 # T\n",
    "secrets: {a: T} x\n",
    "Secrets: {a: T}\n",
    "secret:\n  a: T: x\n",
    "secrets:\n- x\nT- a: b'\n",
)


def all_messages(text: str) -> str:
    """All errors, warnings and suggestions for a job file."""
    try:
        return "\n".join(map(str, parse(text).warnings))
    except InputError as error:
        return str(error) + "".join(
            str(problem.suggestion) for problem in error.problems if not isinstance(problem, str)
        )


def with_auth(auth: str) -> str:
    return JOB.replace("uri: u", f"uri: u, auth: {{{auth}}}")


@pytest.mark.parametrize(
    "text",
    [
        *(JOB + section.replace("T", TOKEN) for section in SECTIONS),
        f"jobRetryCount: &t {TOKEN}\n{JOB}secrets: {{a: *t}}\n",
        f"x: &t {{a: {TOKEN}}}\n{JOB}secrets: {{<<: *t}}\n",
        f"x: &t {TOKEN}\n{JOB}secrets: {{a: *t\n",
        f"secrets: {{a: &t {TOKEN}}}\n" + JOB.replace("dockerImage: img", "dockerImage: *t"),
        with_auth(f"password: {NUMBER}"),
        with_auth(f"password: {TOKEN}, usernme: x"),
        with_auth(f"password: '{TOKEN}<% $secrets.x'"),
        with_auth(f"password: '{TOKEN}<% $secret.x %>'"),
        with_auth(f"password: *{TOKEN}"),
        with_auth(f"password: {TOKEN}") + "x: [\n",
        JOB.replace("uri: u", f"uri: 'https://u:{TOKEN}@h:99999/', bogus: 1"),
        f'{{"secrets": {{"a": "{TOKEN}"}}, "bogus": 1}}',
        f'{{"name": "x", "secrets": {{"a": "{TOKEN}" "b": 1}}}}',
    ],
)  # fmt: skip
def test_no_message_shows_a_secret(text: str) -> None:
    shown = all_messages(text)
    assert shown
    assert "hunter2" not in shown
    assert NUMBER not in shown


def test_messages_about_other_values_show_them() -> None:
    shown = all_messages(
        JOB.replace("gpu: 0", "gpu: 1x") + f"secrets: {{a: {TOKEN}, unused: '1'}}\njobRetryCount: -1\n"
    )
    assert "not '1x'" in shown
    assert "gpu: 1x}" in shown
    assert "jobRetryCount: -1\n" in shown
    near = all_messages(with_auth("password: <% $secrets.pas %>, usrname: x") + "secrets: {pass: x}\nparametrs: {}\n")
    assert "did you mean 'username'" in near
    assert "auth: {password: <% $secrets.pas %>, usrname: x}" in near
    assert "unknown key 'parametrs'; did you mean 'parameters'?" in near


FORMS = (
    "secrets:\n  a: T\n  b: [1, T]\n", 'secrets: {a: T, b: {c: "T"}}\n', "secrets:\n  k: |\n    x\n    T\n    y\n",
    "secrets:\n- T\n- a: 'T'\n", '"secrets" : {"a": "T"}\n',
)  # fmt: skip
EDITS = st.tuples(st.integers(0, 80), st.sampled_from(["", *"{}[]:'\"\n \t*&!-#,>|%@?x1\\"]))


@given(form=st.sampled_from(FORMS), edits=st.lists(EDITS, min_size=1, max_size=4), first=st.booleans())
def test_typing_mistakes_around_a_secret_do_not_expose_it(form: str, edits: list[tuple[int, str]], first: bool) -> None:
    begin = form.index(":") + 1
    for place, new in edits:
        at = begin + place % (len(form) - begin + 1)
        kept = form[at:] if new or form[at : at + 1] == "T" else form[at + 1 :]
        form = form[:at] + new + kept
    text = form.replace("T", TOKEN)
    assert "hunter" not in all_messages(text + JOB if first else JOB + text)
