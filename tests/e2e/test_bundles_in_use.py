"""`kedge cache --prune` beside jobs whose run folders are elsewhere."""

from __future__ import annotations

from pathlib import Path

from kedge.bundle import uses

from .conftest import Kedge


def test_a_bundle_is_kept_for_runs_of_another_state_folder(kedge: Kedge) -> None:
    place = Path(kedge.environment["XDG_CACHE_HOME"], "kedge", "bundles", "one")
    place.mkdir(parents=True)
    place.with_name("one.lock").touch()
    run = kedge("run", "-d", kedge.job("sleep 1000")).stdout.strip()
    uses.note(place, kedge.jobs / run)
    elsewhere = {"XDG_STATE_HOME": str(kedge.folder / "other")}
    prune = ("cache", "--prune")
    assert "deleted 0 bundles" in kedge(*prune, **elsewhere).stdout
    kedge("stop", "--kill", run)
    assert "deleted 1 bundle" in kedge(*prune, **elsewhere).stdout
    assert not place.exists()
