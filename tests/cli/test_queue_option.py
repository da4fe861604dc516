"""kedge run --queue: one option for what jobs wait in, whatever the engine calls it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from kedge.engines.base import Engine
from kedge.errors import InputError
from kedge.jobs.engine_choice import EngineChoice, choose
from kedge.jobs.preparation import prepare
from kedge.resolve.model import Inputs

Chosen = Callable[..., Engine]


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chosen:
    for variable in ("KEDGE_SITE_FILE", "KEDGE_CONFIG_FILE"):
        (tmp_path / f"{variable}.toml").touch()
        monkeypatch.setenv(variable, str(tmp_path / f"{variable}.toml"))

    def made(engine: str, named: str, site: str = "", **group: str) -> Engine:
        (tmp_path / "KEDGE_SITE_FILE.toml").write_text(site)
        document = {
            "protocolVersion": 2, "name": "job", "type": "job",
            "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "busybox"}],
            "taskRoles": {"w": {
                "dockerImage": "image", "commands": ["true"],
                "resourcePerInstance": {"cpu": 1, "memoryMB": 10, "gpu": 0},
            }},
        }  # fmt: skip
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(document))
        prepared = prepare(str(tmp_path / "job.yaml"), Inputs(user="me"))
        return choose(EngineChoice(engine, groups={engine: group}, queue=named), prepared).where

    return made


@pytest.mark.parametrize(("engine", "option"), [("kubernetes", "queue"), ("slurm", "partition")])
def test_it_sets_the_option_of_the_engine(chosen: Chosen, engine: str, option: str) -> None:
    assert chosen(engine, "gpu").options[option] == "gpu"
    assert chosen(engine, "gpu", f"engines.{engine}.{option} = 'cpu'").options[option] == "gpu"
    assert chosen(engine, "gpu", **{option: "gpu"}).options[option] == "gpu"
    with pytest.raises(InputError, match=rf"--queue gpu and --{engine} {option}=cpu disagree"):
        chosen(engine, "gpu", **{option: "cpu"})
    with pytest.raises(InputError, match=f"only the site sets {option}"):
        chosen(engine, "gpu", f"engines.{engine}.fixed = ['{option}']")


def test_an_engine_without_queues_says_so(chosen: Chosen) -> None:
    with pytest.raises(InputError, match="--queue: the local engine has no queues: leave it out"):
        chosen("local", "gpu")
