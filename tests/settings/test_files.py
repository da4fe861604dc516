"""Settings files: what is wrong in one is reported at once, with its place."""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.errors import InputError
from kedge.settings import files
from kedge.settings.listing import listed
from kedge.settings.table import SETTINGS
from kedge.settings.values import AllSettings, load

Write = Any


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the site's file or the user's, and returns the path."""

    def make(text: str | bytes, who: str = "site") -> Path:
        path = tmp_path / f"{who}.toml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        monkeypatch.setenv({"site": "KEDGE_SITE_FILE", "user": "KEDGE_CONFIG_FILE"}[who], str(path))
        return path

    return make


def problems(folder: Path) -> list[str]:
    """The first lines of all problems, without the folder of the files."""
    with pytest.raises(InputError) as error:
        load()
    return [str(problem).split("\n")[0].removeprefix(f"{folder}/") for problem in error.value.problems]


def known(settings: AllSettings) -> dict[str, Any]:
    return {".".join(map(str, key)): value.value for key, value in settings.from_files.items()}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("engin = 'local'", "site.toml:1:1: engin: unknown key 'engin'; did you mean 'engine'?"),
        ("\nengine = 3", "site.toml:2:10: engine: must be a string, not the number 3; put it in quotes"),
        ("engine = 'locale'", "site.toml:1:10: engine: there is no engine 'locale'; did you mean 'local'?"),
        (
            "[engines.contaner]",
            "site.toml:1:10: engines.contaner: unknown key 'contaner'; did you mean 'container'?",
        ),
        (
            "[engines.container]\nnetwork = 'hots'",
            "site.toml:2:11: engines.container.network: 'hots' is not known here; did you mean 'host'?",
        ),
        (
            "[engines.container]\npids_limit = 99",
            "site.toml:2:1: engines.container.pids_limit: unknown key 'pids_limit'; did you mean 'pids-limit'?",
        ),
        (
            "[engines.container]\npids-limit = 3",
            "site.toml:2:14: engines.container.pids-limit: must be at least 16, not 3",
        ),
        (
            "[virtual-clusters.a]\nengine = 'container'\noptions = {network = 'hosts'}",
            "site.toml:3:22: virtual-clusters.a.options.network: 'hosts' is not known here; did you mean 'host'?",
        ),
        (
            "[virtual-clusters.a]\nengine = 'local'\noptions = {network = 'host'}",
            "site.toml:3:12: virtual-clusters.a.options.network: unknown key 'network'; known here: 'allow-fewer-gpus'",
        ),
        (
            "[virtual-clusters.a]\nengine = 'cloud'",
            "site.toml:2:10: virtual-clusters.a.engine: there is no engine 'cloud'; available: local, container, "
            "slurm, kubernetes, and those of installed packages",
        ),
        ("[virtual-clusters.a]", "site.toml:1:19: virtual-clusters.a: the key 'engine' is missing"),
        ("[skus.k80]\ncpu = 4", "site.toml:1:7: skus.k80: the key 'memoryMB' is missing"),
        (
            "[skus.k80]\ncpu = 4\nmemoryMB = '4GB'",
            "site.toml:3:12: skus.k80.memoryMB: must be a whole number, not '4GB'; it is a number of MiB: write 4096",
        ),
        ("[limits.job]\ntask = 4", "site.toml:2:1: limits.job.task: unknown key 'task'; did you mean 'tasks'?"),
        ("engine = 1979-05-27", "site.toml:1:10: engine: must be a string, not the date 1979-05-27"),
        (
            "limits.job.timeLimit = '2 days'",
            "site.toml:1:24: limits.job.timeLimit: '2 days' is not a duration; write seconds, or numbers with d, h, m "
            "or s, such as 90s, 30m, 1h30m or 2d; did you mean '2d'?",
        ),
        (
            "engines.kubernetes.unreachable = '39s'",
            "site.toml:1:34: engines.kubernetes.unreachable: must be at least 40 seconds, not '39s'",
        ),
        ("limits.job.timeLimit = 0", "site.toml:1:24: limits.job.timeLimit: must be more than 0 seconds, not 0"),
        ("limits.hosts = []", "site.toml:1:16: limits.hosts: must not be empty"),
        ("rules = ['a.toml', 3]", "site.toml:1:20: rules[1]: must be a string, not the number 3; put it in quotes"),
        ("storages = 3", "site.toml:1:12: storages: must be a mapping, not the number 3"),
        ("storages.nfs = '/x'", "site.toml:1:16: storages.nfs: must be a mapping, not '/x'"),
        ("engine = ", "site.toml:1:10: this is not TOML: Invalid value"),
        (b"engine = '\xff'", "site.toml: byte 0xff at offset 10 (line 1) is not UTF-8; save the file as UTF-8"),
        (b"#" * ((1 << 20) + 1), "site.toml: it cannot be read: it is larger than 1 MiB"),
    ],
)
def test_a_problem_names_its_place(write: Write, tmp_path: Path, text: str | bytes, message: str) -> None:
    write(text)
    assert problems(tmp_path) == [message]


def test_all_problems_of_both_files_are_reported_at_once(write: Write, tmp_path: Path) -> None:
    write("engin = 'local'\n[limits.job]\ngpu = -1\n")
    write("[limits.job]\ngpu = 9\n[storages.a]\npath = 3", who="user")
    assert problems(tmp_path) == [
        "site.toml:1:1: engin: unknown key 'engin'; did you mean 'engine'?",
        "site.toml:3:7: limits.job.gpu: must be at least 0, not -1",
        "user.toml:2:1: limits.job.gpu: only the site's file may set this, and this is a user's file",
        "user.toml:4:8: storages.a.path: must be a string, not the number 3; put it in quotes",
    ]


SITE = """\
engines.container = {keep = true, network = "host"}
skus.a = {cpu = 1, memoryMB = 1, gpu = 1}
limits.job.gpu = 4.0
"""
USER = """\
engines.container.network = "job"
skus.a = {cpu = 2, memoryMB = 2}
skus.b = {cpu = 3, memoryMB = 3}
"""


def test_the_user_replaces_single_settings_and_whole_entries_of_groups(write: Write) -> None:
    write(SITE)
    write(USER, who="user")
    assert known(load()) == {
        "engines.container.keep": True, "engines.container.network": "job", "skus.a.cpu": 2, "skus.a.memoryMB": 2,
        "skus.b.cpu": 3, "skus.b.memoryMB": 3, "limits.job.gpu": 4,
    }  # fmt: skip


def test_paths_are_relative_to_the_file(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    write(
        "marketplace = 'https://site/x'\nlimits.hosts = ['a']\n[storages]\na.path = '../a'\nb.path='~/b'\nc.path='/c'"
    )
    assert known(load()) == {
        "marketplace": "https://site/x", "storages.a.path": str(tmp_path.parent / "a"), "storages.b.path": "/home/me/b",
        "storages.c.path": "/c", "limits.hosts": ["a"],
    }  # fmt: skip


@pytest.mark.parametrize("who", ["site", "user"])
def test_a_file_that_everybody_can_change_is_refused(write: Write, tmp_path: Path, who: str) -> None:
    path = write("engine = 'local'", who)
    path.chmod(0o646)
    message = "every user of this machine can change it, so it is not used; run: chmod o-w"
    assert problems(tmp_path) == [f"{who}.toml: {message} {path}"]
    path.chmod(0o664)  # a group of administrators
    assert known(load()) == {"engine": "local"}


def test_a_folder_or_a_pipe_in_place_of_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEDGE_SITE_FILE", str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv("KEDGE_CONFIG_FILE", str(tmp_path / "pipe"))
    folder, pipe = problems(tmp_path)
    assert folder.endswith("it cannot be read: it is a directory, not a regular file")
    assert pipe == "pipe: it cannot be read: it is a named pipe, not a regular file"


@pytest.mark.parametrize("target", ["nowhere", "link"])
def test_a_link_that_leads_to_no_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """Otherwise the limits of a site vanish while the file system of its file is not mounted."""
    link = tmp_path / "link"
    link.symlink_to(target)
    for variable in ("KEDGE_SITE_FILE", "KEDGE_CONFIG_FILE"):
        monkeypatch.setenv(variable, str(link))
    assert len(problems(tmp_path)) == 2
    assert all("it cannot be read: " in problem for problem in problems(tmp_path))


def test_a_file_that_changes_is_read_again(write: Write) -> None:
    write("engine = 'local'")
    assert known(load()) == {"engine": "local"}
    write("engine = 'container'")
    assert known(load()) == {"engine": "container"}


def test_a_file_of_a_site_is_checked_for_more_than_one_of_a_user(write: Write) -> None:
    path = str(write("[limits.job]\ngpu = 9"))
    assert files.read(path, True)
    with pytest.raises(InputError, match="only the site's file"):
        files.read(path, False)


def test_the_example_of_the_documentation_is_a_sites_file() -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    found = files.values(example, "/etc/kedge/site.toml", True)
    assert {key[0] for key in found} == {setting.key.split(".")[0] for setting in SETTINGS} | {"engines"}


KEYS = st.one_of(
    st.sampled_from(
        ["engine", "engines", "container", "network", "skus", "limits", "job", "storages", "path", "rules"]
    ),
    st.sampled_from(["virtual-clusters", "options", "local", "cpu", "gpu", "memoryMB", "hosts", "a.b", "*", "", "é"]),
)
VALUES = st.recursive(
    st.one_of(
        st.booleans(), st.integers(), st.floats(), st.text(max_size=9), st.sampled_from(["container", "~", "host"])
    ),
    lambda below: st.one_of(st.lists(below, max_size=2), st.dictionaries(KEYS, below, max_size=3)),
    max_leaves=9,
)


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(below)}" for key, below in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value).replace("Infinity", "inf").replace("NaN", "nan").replace("\\u007f", "")


@given(st.dictionaries(KEYS, VALUES, max_size=5), st.booleans())
def test_any_document_gives_values_or_problems(document: dict[str, Any], is_site: bool) -> None:
    text = "\n".join(f"{json.dumps(key)} = {toml(value)}" for key, value in document.items())
    with contextlib.suppress(InputError):
        found = AllSettings(files.values(text, "/x.toml", is_site))
        assert all(found.get(setting) for setting in SETTINGS if "*" not in setting.key)
        assert list(listed(found))


@given(st.text(max_size=40))
def test_any_text_gives_values_or_problems(text: str) -> None:
    with contextlib.suppress(InputError):
        files.values(text, "/x.toml", True)
