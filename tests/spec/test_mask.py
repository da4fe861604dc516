from __future__ import annotations

import pytest

from kedge.errors import InputError
from kedge.spec.mask import is_masked, mask_secrets
from kedge.spec.parse import parse
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
def test_what_cannot_be_masked_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        mask_secrets(text)


def test_a_masked_job_is_a_job_without_secrets() -> None:
    text = BASE + "secrets: {a: hunter2}\n"
    assert not is_masked(parse(text))
    job = parse(mask_secrets(text))
    assert is_masked(job)
    assert job.secrets == {}
    assert not is_masked(parse(BASE))
