from __future__ import annotations

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kedge.errors import InputError
from kedge.spec.parse import parse
from kedge.spec.redact import is_masked, mask_secrets, masked_values
from kedge.spec.yaml import read

BASE = """\
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


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("secrets:\n  a: b\n  c:\n    - d\n\n# kept\nname: x\n", 'secrets: "******"\n\n# kept\nname: x\n'),
        ("secrets: {a: b} # kept\nname: x", 'secrets: "******" # kept\nname: x'),
        ('"secrets" : {a: "}"}\n', '"secrets" : "******"\n'),
        ("'secrets':\n- a\n- b\nname: x\n", "'secrets': \"******\"\nname: x\n"),
        ('{"name":"x","secrets":{"a":["b"]},"z":1}', '{"name":"x","secrets": "******","z":1}'),
        ("{secrets: {\n a: b},\n name: x}", '{secrets: "******",\n name: x}'),
        ("? secrets\n: {a: b}\nname: x", '? secrets\n: "******"\nname: x'),
        ("!!str secrets: !!map {a: b}", '!!str secrets: "******"'),
        ("secrets: # kept\n  a: b\nname: x", 'secrets: # kept\n    "******"\nname: x'),
        ("secrets: # kept\n- a\nname: x", 'secrets: # kept\n  "******"\nname: x'),
        ("secrets:\n  a: |\n    b\n    c\n\nname: x\n", 'secrets: "******"\n\nname: x\n'),
        ("secrets:\n  a:\n\nname: x\n", 'secrets: "******"\n\nname: x\n'),
        ("secrets:\r\n  a: b\r\nname: x\r\n", 'secrets: "******"\r\nname: x\r\n'),
        ("\ufeffsecrets: {a: b}\n", '\ufeffsecrets: "******"\n'),
        ("secrets: &s {a: &t b}\nx: *s\ny: [*t, c]\n", 'secrets: "******"\nx: "******"\ny: ["******", c]\n'),
        ("secrets: {a: &t {k: b}}\nx: {<<: *t}\ny: {<<: [*t]}\n", 'secrets: "******"\nx: {<<: {}}\ny: {<<: [{}]}\n'),
        ("x: &s {a: b}\nsecrets: *s\n", 'x:   "******"\nsecrets: "******"\n'),
        ("x: &s {secrets: {a: b}}\n<<: *s\n", 'x: &s {secrets: "******"}\n<<: *s\n'),
        ("<<: {secrets: {a: b}}\n", '<<: {secrets: "******"}\n'),
        ("a: {secrets: {b: c}}\n", "a: {secrets: {b: c}}\n"),
        ('secrets: "******"\n', 'secrets: "******"\n'),
        ("secrets: hunter2\nname: x", 'secrets: "******"\nname: x'),
        ("secrets:\nname: x", "secrets:\nname: x"),
        ("name: x # no secrets: here\n", "name: x # no secrets: here\n"),
    ],
)
def test_only_the_value_of_secrets_changes(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked
    assert read(masked).problems == ()
    assert mask_secrets(masked) == masked


@pytest.mark.parametrize("text", ["secrets: {a: b}\nsecrets: {c: d}\n", "secrets: [", "- secrets", ""])
def test_a_file_that_cannot_be_masked_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        mask_secrets(text)


def test_a_masked_job_is_a_job_without_secrets() -> None:
    text = BASE + "secrets: {a: hunter2}\n"
    assert not is_masked(parse(text))
    job = parse(mask_secrets(text))
    assert is_masked(job)
    assert job.secrets == {}
    assert not is_masked(parse(BASE))


TOKEN = "hunter2-hunter2"
KEY = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END KEY-----\n"


@pytest.mark.parametrize(
    "text",
    [
        f"x: &t {TOKEN}\nsecrets: {{a: *t}}\ny: *t\n",
        f"x: &t {{a: {TOKEN}, b: other}}\nsecrets: {{<<: *t, b: c}}\n",
        f"x: &t {{a: {TOKEN}, b: other}}\nsecrets: {{<<: *t, a: overridden}}\n",
        f"x: &t [{{a: {TOKEN}}}]\nsecrets: *t\ny: [*t]\n",
        f"x: &t\n  - &u {TOKEN}\nsecrets:\n  k: *t\nz: *u\n",
        f"# {TOKEN}\nsecrets: {{a: {TOKEN}}} # {TOKEN}\nname: x # {TOKEN}\n",
        f"secrets:\n  a: b # {TOKEN}\n  # {TOKEN}\n\n  # {TOKEN}\n# kept\nname: x\n",
        f"secrets:\r\n  a: b # {TOKEN}\r\n  # {TOKEN}\r\nname: x\r\n",
        f"secrets: {{a: {TOKEN}}}\nx: |\n  # no comment {TOKEN}\n  more\ny: >\n  {TOKEN}\n  folded\n",
        f'secrets: {{a: {TOKEN}}}\nx: "hunter\\x32-hunter\\u0032"\ny: ["a\\n{TOKEN}", \'{TOKEN}\']\n',
        f"secrets: {{a: {TOKEN}}}\nx: &{TOKEN} 1\ny: *{TOKEN}\n",
        f"secrets: {{a: {TOKEN}}}\nx: {{y: [{TOKEN}], z: &a 1.0, v: *a}}\n",
        'secrets: {a: "12345678901"}\nx: 12345678901\n# 12345678901\n',
        f"secrets:\n  k: |\n    {KEY.strip().replace(chr(10), chr(10) + '    ')}\nname: x\n"
        "# MIIEvQIBADANBgkqhkiG9w0B\nx: |\n  AQEFAASCBKcwggSjAgEAAoIB\n",
        'secrets: {a: "it\'s \\"quoted\\" \\\\ text"}\n'
        '# was "it\'s \\"quoted\\" \\\\ text" and it\'s "quoted" \\ text\n',
        f"prerequisites: [{{name: i, auth: {{username: me, password: {TOKEN}}}}}]\n",
        f"prerequisites: [{{name: i, auth: {{password: '{TOKEN}<% $secrets.x %>'}}}}]\nsecrets: {{x: y}}\n",
        f"x: &a {{password: {TOKEN}}}\nprerequisites: [{{name: i, auth: {{<<: *a}}}}, {{name: j, auth: *a}}]\n",
        f"extras: {{reference_prerequisites: [{{name: i, auth: {{password: {TOKEN}}}}}]}}\n",
        f"prerequisites: [{{name: i, uri: 'https://me:{TOKEN}@host/x'}}]\n# git clone https://me:{TOKEN}@host/x\n",
        f"\ufeffsecrets: {{a: {TOKEN}}}\n# {TOKEN}\n",
    ],
)
def test_no_secret_is_left_anywhere(text: str) -> None:
    masked = mask_secrets(text)
    for secret in (TOKEN, "12345678901", "hunter\\x32", "MIIEvQI", "AQEFAA", "quoted"):
        assert secret not in masked
    before, after = read(text).value, read(masked)
    assert after.problems == ()
    assert after.value.keys() == before.keys()
    assert after.value.get("secrets", "******") == "******"
    assert after.value.get("name") == before.get("name")
    assert "kept" in masked or "kept" not in text
    assert mask_secrets(masked) == masked


def test_text_that_is_not_secret_is_kept() -> None:
    text = (
        "prerequisites: [{name: i, auth: {username: me, password: <% $secrets.p %>}}] # kept\nsecrets: {p: '1'}\nx: 1\n"
    )
    assert mask_secrets(text) == text.replace("{p: '1'}", '"******"')
    names = f"secrets: {{{TOKEN}: {TOKEN}}}\nx: {{{TOKEN}: 1}}\n"
    assert mask_secrets(names) == f'secrets: "******"\nx: {{{TOKEN}: 1}}\n'


def test_secrets_given_by_the_submitter_are_masked_too() -> None:
    assert mask_secrets(f"x: a {TOKEN} # {TOKEN}\n", given=[TOKEN, "1"]) == 'x: "a ******" # ******\n'
    stored = masked_values({"a": [f"x{TOKEN}", 1, None, True, ("https://u:pw@h/",)]}, [TOKEN, "1"])
    assert stored == {"a": ["x******", 1, None, True, ["https://u:******@h/"]]}


_PLACES = (
    "secrets: {{a: {0}}}\n", "secrets:\n  a: {0}\n  # {1}\n", "secrets:\n- {0} # {1}\n",
    "x: &t {0}\nsecrets: {{a: *t}}\n",
    "x: &t {{a: {0}}}\nsecrets: {{<<: *t}}\ny: *t\n",
)  # fmt: skip
_ELSEWHERE = (
    "# {1}\n",
    "u: {0}\n",
    "v: [a, {0}, 1.0] # {1}\n",
    "w:\n  - |\n    {1}\n  - x\n",
    "p: 'a' # b\n",
    "q: >-\n  {1}\n",
)


@given(
    secret=st.text(
        st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp", "Zs"]), min_size=12, max_size=30
    ),
    place=st.sampled_from(_PLACES),
    elsewhere=st.permutations(_ELSEWHERE),
    after=st.booleans(),
)
def test_masking_removes_every_secret_and_keeps_the_rest(
    secret: str, place: str, elsewhere: list[str], after: bool
) -> None:
    parts = [*elsewhere, place] if after else [place, *elsewhere]
    text = "".join(parts).format(json.dumps(secret, ensure_ascii=False), secret)
    try:
        before = read(text).value
    except InputError:
        assume(False)
    masked = mask_secrets(text)
    value = read(masked).value
    assert secret not in masked
    assert value["v"] == ["a", "******", 1.0]
    assert value["p"] == "a"
    assert value.keys() == before.keys()
