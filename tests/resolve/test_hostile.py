"""Whatever an item, an index or a lock file contains, the result is an answer or readable errors."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.errors import InputError, Problem, Unreachable

from .conftest import Folder

ITEM = """\
- name: a
  type: data
  uri: [x]
  plugin: cmd
  retry: {max: {{ n }}, delaySec: 1.5}
  template_variables:
    - {name: n, type: integer, default: 2}
    - {name: o, type: choice, choices: [x, y], default: x}
  requireStorages: [{name: s, mountPath: /s}]
  require: [b, {name: b, template_variables: {p: "{{ o }}"}}]
  callbacks: [{event: taskStarts, commands: ["echo <% this.uri[0] %> {{ o }}", {{ n }}]}]
- name: b
  root: /x
  template_variables: [{name: p, default: 1}]
  preCommands: ["echo <% this.root %> <% $parameters.x %> {{ p }}"]
"""
INDEX = '{"items": [{"id": "1", "name": "a", "type": "data", "path": "a.yaml", "version": 1, "author": "me"}]}'
LOCK = '{"version": 1, "items": {"marketplace://name/a": {"identity": "marketplace://1", "source": "m/a.yaml", "sha256": "0"}}, "files": {}, "git": {}, "images": {}}'  # noqa: E501
PIECES = ["\n", "\n  ", "- ", ": ", "{", "}", "[", "]", "&a ", "*a", "<<: ", "'", '"', "|", "{{ n }}", "{{", "}}"]
PIECES += ["<% this.", "<% this.uri %>", "<% $", " %>", "require", "name", "~", "1.5", "true", "null", "0", "-1"]
PIECES += ["../", "\0", "\u2028", "callbacks", "template_variables"]
edits = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), min_size=1, max_size=4).map("".join)


def edited(text: str, piece: str, at: float, removed: int) -> str:
    start = int(at * len(text))
    return text[:start] + piece + text[start + removed :]


def survives(folder: Folder, listed: list[str], **inputs: str) -> None:
    try:
        folder.resolve(listed, dict(inputs), parameters={"x": 1})
    except (InputError, Unreachable) as error:
        for problem in error.problems:
            assert isinstance(problem, Problem)
            assert problem.message
            assert "\n" not in str(problem).split("\n    ")[0]


@given(edits, st.floats(0, 1), st.integers(0, 15))
@settings(max_examples=300)
def test_an_item_with_any_edit(piece: str, at: float, removed: int) -> None:
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(Path(path))
        (folder.path / "items.yaml").write_bytes(edited(ITEM, piece, at, removed).encode(errors="replace"))
        survives(folder, ["./items.yaml#a", "./items.yaml#b"])


@given(edits, st.floats(0, 1), st.integers(0, 15), st.booleans())
@settings(max_examples=150)
def test_an_index_or_a_lock_file_with_any_edit(piece: str, at: float, removed: int, in_lock: bool) -> None:
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(Path(path))
        folder.write("m/a.yaml", "name: a\n")
        for name, text, wrong in (("job.lock", LOCK, in_lock), ("m/index.json", INDEX, not in_lock)):
            file = folder.write(name, "")
            file.write_bytes((edited(text, piece, at, removed) if wrong else text).encode(errors="replace"))
        survives(folder, ["marketplace://name/a", "marketplace://data/a"], marketplace=str(folder.path / "m"))


def test_the_unedited_item_is_valid() -> None:
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(Path(path))
        folder.write("items.yaml", ITEM)
        job = folder.resolve(["./items.yaml#a", "./items.yaml#b"], parameters={"x": 1})
        assert [step.name for step in job.roles[0].steps] == ["b", "b", "a"]
        assert job.roles[0].steps[-1].retry.max == 2
