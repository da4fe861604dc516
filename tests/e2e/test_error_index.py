"""docs/errors.md: made from the source as it is now, and true of what kedge prints."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "errors.md"


def test_the_page_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    assert PAGE.read_text() == importlib.import_module("error_index").page(), "run: python docs/generate.py"


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "nothing"],
        ["validate", "job.yaml"],
        ["run", "--storage", "a=/nowhere", "job.yaml"],
        ["diagnose", "/dev/null"],
        ["bundle", "--layers", "all"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_kedge_prints_is_on_the_page(arguments: list[str], tmp_path: Path) -> None:
    job = (ROOT / "examples" / "hello.yaml").read_text().replace("instances: 2", "instance: 2")
    (tmp_path / "job.yaml").write_text(job)
    texts = [text for _, text in re.findall(r"^\| (`+) ?(.+?) ?\1 \|", PAGE.read_text(), re.MULTILINE)]
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "kedge", *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    printed = done.stderr.splitlines()[0]
    assert printed.startswith("error: ")
    known = [re.escape(text.replace("\\|", "|")).replace("…", ".+") for text in texts]
    assert any(re.search(rf": {pattern}$", printed) for pattern in known), printed
