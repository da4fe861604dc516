"""The variables of the XDG base directory specification mean the same wherever kedge keeps files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import kedge
from kedge import xdg
from kedge.bundle import cache as bundles
from kedge.diagnose.rules import rule_files
from kedge.engines.container import engine
from kedge.engines.container.api import engine_address
from kedge.errors import CannotRun
from kedge.resolve import document_cache as documents
from kedge.runs import data_cache as downloads
from kedge.runs import folder as runs
from kedge.runtime.actions import data_cache

NOTHING = data_cache.CacheFolders("", "", "")
PLACES: dict[str, tuple[str, Callable[[dict[str, str]], object]]] = {
    "runs": (xdg.STATE, runs.jobs_dir),
    "documents": (xdg.CACHE, documents.default_folder),
    "bundles": (xdg.CACHE, lambda _: bundles.folder()),
    "containers": (xdg.CACHE, lambda _: engine.cache_folder()),
    "rules": (xdg.CACHE, lambda _: rule_files._cache_folder()),
    "data": (xdg.CACHE, lambda _: (data_cache.find("/nowhere") or NOTHING).files),
    "downloads": (xdg.CACHE, lambda _: downloads.folder()),
    "sockets": (
        xdg.RUNTIME,
        lambda environment: next(p for p in engine_address.sockets(environment) if "podman/" in p),
    ),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", ["", "relative", "./relative", "~/x"])
def test_relative_paths_are_ignored(place: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variable, where = PLACES[place]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv(variable, raising=False)
    default = str(where({}))
    monkeypatch.setenv(variable, value)
    assert str(where({variable: value})) == default
    assert default.startswith("/run/user/" if variable == xdg.RUNTIME else str(tmp_path / "home"))
    assert not (tmp_path / "relative").exists()
    monkeypatch.setenv(variable, f"{tmp_path}/own")
    assert str(where({variable: f"{tmp_path}/own"})).startswith(f"{tmp_path}/own/")


def test_without_a_home_folder_the_error_names_the_variables_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as it is for a user id without an entry
    for place in ("runs", "documents", "bundles", "containers"):
        variable, where = PLACES[place]
        monkeypatch.delenv(variable, raising=False)
        with pytest.raises(CannotRun, match=f"set {variable} or HOME"):
            where({})
    assert rule_files._cache_folder() is None
    assert data_cache.find("/nowhere") is None


def test_no_other_module_reads_the_variables() -> None:
    src = Path(kedge.__file__).parent
    readers = [path for path in src.rglob("*.py") if re.search(r"[\"']XDG_[A-Z]", path.read_text())]
    assert [str(path.relative_to(src)) for path in readers if path.parent.name != "testing"] == ["xdg.py"]
