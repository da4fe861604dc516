"""The behaviours that all engines share, with agents beside the tasks: what every cluster engine has in common."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kedge.testing.command import Kedge
from kedge.testing.conformance import environment, folders, hooks

MODULES = Path(__file__).parents[1] / "engines"
# Those that an agent has a part in. A cluster's own tests have all of them.
BEHAVIOURS = {**environment.BEHAVIOURS, **folders.BEHAVIOURS, **hooks.BEHAVIOURS}


@pytest.fixture
def kedge(tmp_path: Path) -> Iterator[Kedge]:
    package = tmp_path / "site" / "kedge_process-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: kedge-process\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[kedge.engines]\nprocess = cluster.process_engine:ProcessEngine\n")
    folder = tmp_path / "jobs"
    folder.mkdir()
    with closing(Kedge(folder, engine="process")) as made:
        made.environment["PYTHONPATH"] = os.pathsep.join(map(str, (package.parent, MODULES)))
        yield made


@pytest.mark.parametrize("behaviour", BEHAVIOURS.values(), ids=BEHAVIOURS)
def test_behaviour(kedge: Kedge, behaviour: Callable[[Kedge], None]) -> None:
    if "busybox" in str(behaviour) and not shutil.which("busybox"):
        pytest.skip("peers talk through busybox, which this machine does not have")
    behaviour(kedge)
