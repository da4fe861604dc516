"""Where the options of the Slurm engine come from: --slurm, the job file, the user's settings, the site's."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from kedge.cli.commands import plan
from kedge.engines.slurm.options import ACCEPTS, GROUP, SlurmOptions
from kedge.errors import InputError
from kedge.jobs.engine_choice import ChosenEngine, EngineChoice, choose
from kedge.jobs.preparation import prepare
from kedge.resolve.model import Inputs
from kedge.settings.table import engine_settings
from kedge.spec.schema import schema

Choose = Callable[..., ChosenEngine]


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Choose:
    """The engine for a job with these extras and settings."""

    def made(
        given: dict[str, str], extras: dict[str, Any] | None = None, user: str = "", site: str = "",
        defaults: dict[str, Any] | None = None, engine: str | None = "slurm",
    ) -> ChosenEngine:  # fmt: skip
        for variable, name, text in (("KEDGE_SITE_FILE", "site", site), ("KEDGE_CONFIG_FILE", "user", user)):
            (tmp_path / f"{name}.toml").write_text(text)
            monkeypatch.setenv(variable, str(tmp_path / f"{name}.toml"))
        document = {
            "protocolVersion": 2, "name": "job", "type": "job", "extras": extras or {}, "defaults": defaults or {},
            "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "busybox"}],
            "taskRoles": {"w": {
                "dockerImage": "image", "commands": ["true"],
                "resourcePerInstance": {"cpu": 1, "memoryMB": 10, "gpu": 0},
            }},
        }  # fmt: skip
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(document))
        prepared = prepare(str(tmp_path / "job.yaml"), Inputs(user="me"))
        return choose(EngineChoice(engine, groups={"slurm": given}), prepared)

    return made


def options(chosen: ChosenEngine) -> SlurmOptions:
    return SlurmOptions(**chosen.where.options)


def error(chosen: Choose, *args: Any, **more: Any) -> str:
    with pytest.raises(InputError) as caught:
        chosen(*args, **more)
    return str(caught.value)


def test_the_submitter_comes_before_the_job_file_and_that_before_user_and_site(chosen: Choose) -> None:
    extras = {"slurm": {"partition": "b", "account": "b", "exclusive": True, "time": "90s"}}
    user = 'engines.slurm = {partition = "c", account = "c", qos = "c"}'
    site = 'engines.slurm = {partition = "d", account = "d", qos = "d", reservation = "d"}'
    found = options(chosen({"partition": "a", "requeue": "yes"}, extras, user, site))
    assert found[:6] == ("a", "b", "c", "90s", None, "d")
    assert (found.exclusive, found.requeue, found.time_sec) == (True, True, 90.0)


def test_an_option_that_is_false_takes_precedence_too(chosen: Choose) -> None:
    found = options(chosen({"requeue": "no"}, {"slurm": {"exclusive": False}}, site="engines.slurm.requeue = true"))
    assert (found.exclusive, found.requeue) == (False, False)


def test_what_the_settings_decide_is_said(chosen: Choose, tmp_path: Path) -> None:
    notes = chosen({}, site='engines.slurm = {partition = "d", requeue = true, prologue = ["true"]}').notes
    place = f"({tmp_path}/site.toml:1)"
    assert notes == (f"--slurm partition=d {place}", f"--slurm requeue=true {place}")


def test_a_virtual_cluster_names_the_engine_with_options(chosen: Choose) -> None:
    site = '[virtual-clusters.gpu]\nengine = "slurm"\noptions = {partition = "a100", gres = "gpu:a100"}'
    found = chosen({}, {"slurm": {"gres": "gpu:h100"}}, site=site, defaults={"virtualCluster": "gpu"}, engine=None)
    assert (found.where.name, options(found).partition, options(found).gres) == ("slurm", "a100", "gpu:h100")


@pytest.mark.parametrize("engine", ["local", None])
def test_extras_of_slurm_are_nothing_to_other_engines(chosen: Choose, engine: str | None) -> None:
    assert chosen({}, {"slurm": {"partition": "a"}}, engine=engine).where.name == "local"


def test_options_for_slurm_need_the_engine(chosen: Choose) -> None:
    message = "--slurm is for the slurm engine, and this job runs on local: add --engine slurm"
    assert message in error(chosen, {"partition": "a"}, engine="local")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"partiton": "a"}, "the slurm engine has no option --slurm partiton; did you mean --slurm partition?"),
        ({"nodes": "3"}, "no option --slurm nodes; it has --slurm partition, --slurm account, --slurm qos, "),
        ({"time": "1-00:00:00"}, "--slurm time of the slurm engine: '1-00:00:00' is not a duration; write seconds, or"),
        (
            {"time": "10"},
            "time of the slurm engine (--slurm time, extras.slurm.time or engines.slurm.time): 10 has no unit. "
            "Slurm would take it as minutes, kedge as seconds; write 10m or 10s",
        ),
        ({"time": "0m"}, "0m is not a time limit; leave it out for the default"),
        ({"partition": "a\n#SBATCH --uid=0"}, "--slurm partition of the slurm engine: 'a\\n#SBATCH --uid=0' is not"),
        ({"constraint": "a b"}, "'a b' is not an expression of features"),
        ({"gres": "gpu:4"}, "'gpu:4' is not the name of GPUs; write gpu, or a name and a type such as gpu:a100"),
        ({"exclusive": "perhaps"}, "--slurm exclusive of the slurm engine must be true or false, not 'perhaps'"),
        ({"prologue": "rm -rf /"}, "only the site's file may set prologue of the slurm engine"),
        ({"link-ports": "1-2"}, "only the site's file may set link-ports of the slurm engine"),
        ({"sbatch": "--uid=0"}, "only the site's file may set sbatch of the slurm engine"),
    ],
)  # fmt: skip
def test_a_wrong_option_of_the_submitter(chosen: Choose, given: dict[str, str], message: str) -> None:
    assert message in error(chosen, given)


@pytest.mark.parametrize(
    ("extras", "place", "message"),
    [
        ({"partiton": "a"}, "extras.slurm.partiton", "unknown key 'partiton'; did you mean 'partition'?"),
        ({"prologue": ["x"]}, "extras.slurm.prologue", "unknown key 'prologue'"),
        ({"partition": "a b"}, "extras.slurm.partition", "'a b' is not a name, or several"),
        ({"time": "1:30:00"}, "extras.slurm.time", "did you mean '1h30m'?"),
        ({"time": 0}, "extras.slurm.time", ""),
        ({"exclusive": "no"}, "extras.slurm.exclusive", "must be true or false"),
    ],
)  # fmt: skip
def test_a_wrong_option_in_the_job_file_has_a_position(
    chosen: Choose, extras: dict[str, Any], place: str, message: str
) -> None:
    found = error(chosen, {}, {"slurm": extras})
    assert message in found
    assert re.search(rf"job\.yaml:[0-9]+:[0-9]+: {re.escape(place)}: ", found)


@pytest.mark.parametrize("key", [option.key for option in ACCEPTS if option.site_only])
@pytest.mark.parametrize("cluster", [False, True])
def test_what_is_for_the_site_is_not_for_users(chosen: Choose, tmp_path: Path, key: str, cluster: bool) -> None:
    texts = {
        "container": '"pyxis"',
        "commands": '"/opt/bin"',
        "conf": '"/etc/x"',
        "link-ports": '"1-2"',
        **dict.fromkeys(("barrier", "unreachable"), '"1m"'),
    }
    texts |= {"fixed": '["qos"]', "sbatch": '["--x"]'}
    line = f"{key} = " + texts.get(key, '["true"]')
    text = f'[virtual-clusters.a]\nengine = "slurm"\n[virtual-clusters.a.options]\n{line}' if cluster else ""
    text = text or f"[engines.slurm]\n{line}"
    assert "only the site's file may set this, and this is a user's file" in error(chosen, {}, user=text)
    chosen({}, site=text)


def test_what_the_site_fixes_nobody_else_sets(chosen: Choose) -> None:
    site = 'engines.slurm = {partition = "d", fixed = ["partition", "reservation"]}'
    assert options(chosen({}, site=site)).partition == "d"
    assert options(chosen({"partition": "d"}, {"slurm": {"partition": "d"}}, site=site)).partition == "d"
    assert options(chosen({"qos": "x"}, site=site)).qos == "x"
    assert "--slurm partition=a: only the site sets partition (" in error(chosen, {"partition": "a"}, site=site)
    assert "--slurm reservation=a: only the site sets" in error(chosen, {"reservation": "a"}, site=site)
    found = error(chosen, {}, {"slurm": {"partition": "a"}}, site=site)
    assert "job.yaml:" in found
    assert "extras.slurm.partition: only the site sets partition" in found
    assert "only the site sets partition" in error(chosen, {}, user='engines.slurm.partition = "d"', site=site)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('sbatch = ["--a\\n#SBATCH --b"]', "is not an option of sbatch"),
        ('sbatch = ["#!/bin/sh"]', "is not an option of sbatch"),
        ('prologue = ["a\\nb"]', "must be one line"),
        ('commands = "opt"', "must be an absolute path"),
        ('link-ports = "80"', "is not a range of ports, such as 20000-20099"),
        ('fixed = ["nodes"]', "nodes"),
        ('container = "docker"', "must be one of 'none', 'pyxis', 'apptainer'"),
    ],
)
def test_a_wrong_line_of_the_site(chosen: Choose, line: str, message: str) -> None:
    found = error(chosen, {}, site=f"[engines.slurm]\n{line}")
    assert message in found
    assert "site.toml:2:" in found


@pytest.mark.parametrize("gres", ["gpu", "gpu:a100", "gpu:4090", "gpu:a100_1g.5gb", "npu:910b"])
def test_names_of_gpus(chosen: Choose, gres: str) -> None:
    assert options(chosen({"gres": gres})).gres == gres


def test_the_shell_completes_the_names_of_options() -> None:
    (option,) = (each for each in plan.command.params if each.name == "slurm")
    found = option.shell_complete(click.Context(plan.command), "re")
    assert [item.value for item in found] == ["reservation=", "requeue="]


@pytest.mark.parametrize("ports", ["300-200", "0-5", "65000-65536"])
def test_ports_that_are_no_range(chosen: Choose, ports: str) -> None:
    assert f"engines.slurm.link-ports: {ports} is not a range" in error(
        chosen, {}, site=f'engines.slurm.link-ports = "{ports}"'
    )


def test_the_schema_of_job_files_has_the_same_options() -> None:
    found = schema()["$defs"]["slurm"]["properties"]
    own = {option.key: option for option in ACCEPTS if not option.site_only}
    assert list(found) == list(own)
    for setting in engine_settings("slurm", own.values()):
        key = setting.key.rpartition(".")[2]
        mine = schema()["$defs"]["duration"] | found[key] if key == "time" else found[key]
        assert mine["description"] == own[key].help
        assert (mine.get("pattern"), mine.get("patternErrorMessage")) == (
            setting.schema.get("pattern"), setting.schema.get("patternErrorMessage"),
        )  # fmt: skip
        assert setting.job == f"extras.slurm.{key}"
    assert {option.group for option in ACCEPTS} == {GROUP}


def test_options_survive_the_way_to_the_controller(chosen: Choose) -> None:
    first = chosen({"partition": "a"}, site='engines.slurm = {prologue = ["x"], sbatch = ["--y"], link-ports = "1-9"}')
    assert type(first.where)(**first.where.options).options == first.where.options
    assert options(first).port_range == (1, 9)
