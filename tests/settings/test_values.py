"""Where the values of settings come from, and which place wins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kedge.engines.kubernetes.options import ACCEPTS as KUBERNETES_OPTIONS
from kedge.engines.registry import options_of
from kedge.errors import InputError
from kedge.lazy_modules import ENGINES
from kedge.runs import code_snapshot
from kedge.settings import values
from kedge.settings.listing import listed
from kedge.settings.table import CODE_LIMIT, ENGINE, SETTINGS, Setting, engine_settings
from kedge.settings.values import load
from kedge.spec.schema import check_document, schema
from kedge.spec.toml import read

Variables = dict[str, str]
EVERY = (*SETTINGS, *(row for name in ENGINES for row in engine_settings(name, options_of(name))))


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """The variables for a site's file and a user's in a folder of their own; both are missing."""
    return {"KEDGE_SITE_FILE": os.devnull, "XDG_CONFIG_HOME": str(tmp_path)}


def write(path: Path, text: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return str(path)


def test_each_source_takes_precedence_over_the_one_before(places: Variables, tmp_path: Path) -> None:
    found = [str(load(places).get(ENGINE)[1])]
    places["KEDGE_SITE_FILE"] = write(tmp_path / "site.toml", "\nengine = 'container'")
    found.append(str(load(places).get(ENGINE)[1]))
    write(tmp_path / "kedge" / "config.toml", "engine = 'container'")
    found.append(str(load(places).get(ENGINE)[1]))
    places["KEDGE_ENGINE"] = "container"
    found.append(str(load(places).get(ENGINE)[1]))
    assert found == ["default", f"{tmp_path}/site.toml:2", f"{tmp_path}/kedge/config.toml:1", "KEDGE_ENGINE"]
    places["KEDGE_ENGINE"] = ""  # as good as unset
    assert load(places).get(ENGINE)[1].line == 1


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [("KEEP", "true", True), ("KEEP", "No", False), ("PIDS_LIMIT", "99", 99), ("NETWORK", "host", "host")],
)
def test_a_variable_sets_an_option_of_an_engine(places: Variables, variable: str, text: str, value: object) -> None:
    found = dict(listed(load({**places, f"KEDGE_ENGINES_CONTAINER_{variable}": text})))
    assert found[f"engines.container.{variable.lower().replace('_', '-')}"].value == value


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("KEEP", "maybe", "must be true or false, not 'maybe'"),
        ("PIDS_LIMIT", "many", "must be a whole number, not 'many'"),
        ("PIDS_LIMIT", "--3", "must be a whole number, not '--3'"),
        ("PIDS_LIMIT", "9" * 5000, f"must be a whole number, not '{'9' * 59}…'"),
        ("PIDS_LIMIT", "3", "must be at least 16, not 3"),
        ("NETWORK", "hots", "'hots' is not known here; did you mean 'host'?"),
    ],
)
def test_a_bad_variable_is_an_error_with_its_name(places: Variables, variable: str, text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        dict(listed(load({**places, f"KEDGE_ENGINES_CONTAINER_{variable}": text})))
    assert str(error.value) == f"KEDGE_ENGINES_CONTAINER_{variable}: {message}"


@pytest.mark.parametrize(
    "setting", [row for row in EVERY if not row.variable and "*" not in row.key], ids=lambda row: row.key
)
def test_a_variable_for_what_no_variable_may_set_is_an_error(places: Variables, setting: Setting) -> None:
    """It says who may. In most cases that is the site: limits, raw lines for a scheduler, how images run."""
    with pytest.raises(InputError) as error:
        load({**places, setting.variable_name: "1"}).get(setting)
    if setting.site_only:
        who = f"only the site's file ({os.devnull}) may set {setting.key}; unset the variable"
    else:
        who = f"no variable can set {setting.key}; unset it, and use a file of settings"
    assert str(error.value).startswith(f"{setting.variable_name}: {who}")


def test_a_variable_that_is_empty_sets_nothing(places: Variables) -> None:
    assert dict(listed(load(places | {setting.variable_name: "" for setting in EVERY})))


def test_another_sites_file_cannot_replace_one_that_the_user_must_not_change(
    places: Variables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or else a variable would lift the limits of the site. /proc/version is a file that not even root can change."""
    places["KEDGE_SITE_FILE"] = write(tmp_path / "own.toml", "")
    monkeypatch.setattr(values, "SITE_FILE", "/proc/version")
    if os.access("/proc/version", os.W_OK):
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InputError, match="KEDGE_SITE_FILE cannot replace /proc/version, which this user must not"):
        load(places)
    monkeypatch.setattr(values, "SITE_FILE", str(tmp_path / "none"))
    assert load(places).from_files == {}


@pytest.mark.parametrize("variable", ["KEDGE_SITE_FILE", "KEDGE_CONFIG_FILE"])
def test_a_variable_that_names_no_file_is_an_error(places: Variables, variable: str) -> None:
    with pytest.raises(InputError, match=f"^{variable}: there is no file /none; unset it, or set it to /dev/null"):
        load({**places, variable: "/none"})


def test_a_user_without_a_home_folder_has_no_settings(places: Variables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "no-path")
    del places["XDG_CONFIG_HOME"]
    assert values.files(places) == ()


def test_a_job_file_sets_no_option_of_an_engine_no_folder_of_a_storage_and_no_limit() -> None:
    """It may come from a stranger. What it may set: its virtual cluster, its marketplace and its rules, and what every
    user of a cluster may ask for. A kubeconfig file could name programs."""
    settable = {setting.key for setting in EVERY if setting.job}
    slurm = ["partition", "account", "qos", "time", "constraint", "reservation", "exclusive", "gres", "requeue"]
    kubernetes = ["namespace", "controller", "queue", "priority-class", "node-selector"]
    engines = {*(f"engines.slurm.{key}" for key in slurm), *(f"engines.kubernetes.{key}" for key in kubernetes)}
    assert settable == {"engine", "marketplace", "rules", *engines}
    limits = {setting.key for setting in EVERY if setting.key.startswith("limits.")}
    of_site = ("nfs", "cifs", "pvc", "credentials", "users", "writers", "subPath", "makeSubPath")
    scheduler = [
        "container",
        "sbatch",
        "prologue",
        "epilogue",
        "commands",
        "conf",
        "link-ports",
        "barrier",
        "unreachable",
        "fixed",
    ]
    others = {"registry", "groups.*.members", *(f"storages.*.{key}" for key in of_site)}
    others |= {f"engines.slurm.{key}" for key in scheduler}
    user = {"kubeconfig", "context", "namespace", "controller", "queue", "priority_class", "node_selector"}
    others |= {f"engines.kubernetes.{option.key}" for option in KUBERNETES_OPTIONS if option.name not in user}
    assert {setting.key for setting in EVERY if setting.site_only} == others | limits


def test_defaults_fulfil_their_own_types() -> None:
    for setting in EVERY:
        if setting.default is not None:
            assert not list(check_document(setting.default, read("", "x").source, setting.schema)), setting.key


def test_the_limit_of_code_has_one_default() -> None:
    assert CODE_LIMIT.default << 20 == code_snapshot.LIMIT


def test_keys_of_the_job_file_that_set_the_same_exist() -> None:
    for setting in (setting for setting in EVERY if setting.job):
        first, *rest = setting.job.split(".")
        node = schema()["properties"][first]
        for step in rest:
            node = schema()["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
            node = node["properties"][step]
        assert "description" in node
