"""The storages of a job: its own, those of its prerequisites, and conflicts between them."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.errors import INVALID, NO_STORAGE
from kedge.resolve.model import Mount, StorageNames
from kedge.resolve.steps import Findings
from kedge.resolve.storages import merge, of_job, requests
from kedge.spec.parse import parse

from .conftest import Folder, echo

CONFIGNFS = [{"name": "confignfs", "mountPath": "/mnt/confignfs"}]


def merged(folder: Folder, listed: Any, required: list[dict[str, str]], usable: tuple[str, ...]) -> Any:
    """The mounts of a job with these `extras.storages` and these requirements of its items; d1 is the default."""
    extras = {} if listed is None else {"extras": {"storages": listed}}
    job = parse(folder.job([], **extras))
    wanted = [*of_job(job, Findings([]), ["d1"]), *requests(required, job.source, ("requireStorages",))]
    return merge(wanted, StorageNames(usable))


@pytest.mark.parametrize(
    ("listed", "required", "usable", "expected"),
    [
        (None, CONFIGNFS, ("confignfs",), [("confignfs", "/mnt/confignfs")]),
        ([{"name": "confignfs"}], CONFIGNFS, ("confignfs",), [("confignfs", "/mnt/confignfs")]),
        (
            [{"name": "confignfs", "mountPath": "/data"}],
            CONFIGNFS,
            ("confignfs",),
            [("confignfs", "/data"), ("confignfs", "/mnt/confignfs")],
        ),
        ([], CONFIGNFS, ("d1", "confignfs"), [("d1", "/mnt/d1"), ("confignfs", "/mnt/confignfs")]),
        (None, [], (), []),
        ([{}, {"name": ""}], CONFIGNFS, ("confignfs",), [("confignfs", "/mnt/confignfs")]),
    ],
)
def test_storages_of_the_job_and_its_items_are_merged(
    folder: Folder, listed: Any, required: Any, usable: tuple[str, ...], expected: list[tuple[str, str]]
) -> None:
    mounts, problems, _ = merged(folder, listed, required, usable)
    assert [(mount.name, mount.path) for mount in mounts] == expected
    assert problems == []


@pytest.mark.parametrize(
    ("listed", "required", "usable", "message", "code"),
    [
        (
            [{"name": "s2", "mountPath": "/mnt/confignfs"}],
            [{"name": "confignfs"}],
            ("s2", "confignfs"),
            "Mount path /mnt/confignfs is used by storages s2 and confignfs.",
            INVALID,
        ),
        (
            [{"name": "s2", "mountPath": "/mnt//confignfs/"}],
            [{"name": "confignfs"}],
            ("s2", "confignfs"),
            "Mount path /mnt/confignfs is used by storages s2 and confignfs.",
            INVALID,
        ),
        (
            None,
            CONFIGNFS,
            (),
            "Storage confignfs is not found: none is configured. Use a folder of your own: --storage confignfs=FOLDER",
            NO_STORAGE,
        ),
        (
            None,
            CONFIGNFS,
            ("confignf", "x"),
            "Storage confignfs is not found; did you mean 'confignf'? You may use 'confignf', 'x'",
            NO_STORAGE,
        ),
        (
            [{"name": "s2", "mountPath": "/usr/local/pai/kedge"}],
            [],
            ("s2",),
            "no storage can be mounted at /usr/local/pai/kedge; choose another mount path",
            INVALID,
        ),
        (
            [{"name": "s2", "mountPath": "/usr/local/"}],
            [],
            ("s2",),
            "no storage can be mounted at /usr/local; choose another mount path",
            INVALID,
        ),
        (
            [{"name": "s2", "mountPath": "//"}],
            [],
            ("s2",),
            "no storage can be mounted at /; choose another mount path",
            INVALID,
        ),
        (
            None,
            [{"name": "confignfs", "mountPath": "relative"}],
            ("confignfs",),
            "the mount path 'relative' must be absolute and must not contain '..'",
            INVALID,
        ),
    ],
)
def test_conflicting_and_invalid_storages_are_refused(
    folder: Folder, listed: Any, required: Any, usable: tuple[str, ...], message: str, code: str
) -> None:
    _, (problem,), _ = merged(folder, listed, required, usable)
    assert (problem.message, problem.code) == (message, code)


def test_nested_storages_give_a_note(folder: Folder) -> None:
    nested = [{"name": "a", "mountPath": "/mnt/a"}, {"name": "b", "mountPath": "/mnt/a/b"}]
    _, problems, notes = merged(folder, nested, [], ("a", "b"))
    assert problems == []
    assert notes == ["the storage b at /mnt/a/b is mounted inside the storage a"]


def test_every_storage_of_a_job_is_mounted_into_all_tasks(folder: Folder) -> None:
    rest = {
        "name": "r",
        "type": "storage",
        "plugin": "com.microsoft.pai.rest.storage",
        "config": "c",
        "mountPoint": "/c",
    }
    pvc = {"name": "p", "type": "storage", "plugin": "pvc_storage", "plugin_params": {"name": "q"}}
    needs = echo("n", type="data", requireStorages=CONFIGNFS, require=["r", "p"])
    job = folder.resolve(["n"], prerequisites=[rest, pvc, needs], extras={"storages": [{"name": "own"}]})
    assert set(job.mounts) == {
        Mount("own", "/mnt/own"), Mount("confignfs", "/mnt/confignfs"), Mount("c", "/c"), Mount("q", "/mnt/q")
    }  # fmt: skip
    assert [step.name for step in job.roles[0].steps] == ["n"]


def test_a_conflict_is_reported_at_the_item_that_causes_it(folder: Folder) -> None:
    needs = echo("n", type="data", requireStorages=[{"name": "a"}, {"name": "b", "mountPath": "/mnt/a/"}])
    problem = folder.problem(["n"], prerequisites=[needs])
    assert problem.where == "prerequisites[1].requireStorages[1]"


@pytest.mark.parametrize(("storages", "expected"), [(None, ["share"]), ([{"name": "s"}], ["s"])])
def test_teamwise_storage_counts_if_there_is_no_list(folder: Folder, storages: Any, expected: list[str]) -> None:
    plugins = [
        {"plugin": "teamwise_storage", "parameters": {"storageConfigNames": names}} for names in (["x"], ["share"])
    ]
    extras = {"com.microsoft.pai.runtimeplugin": plugins, **({} if storages is None else {"storages": storages})}
    job = folder.resolve([], extras=extras)
    assert [mount.name for mount in job.mounts] == expected
    assert job.inert == ()
    assert "teamwise_storage: deprecated; list the storages in extras.storages instead" in job.notes


@pytest.mark.parametrize(("storages", "expected"), [(None, ["d1"]), ([{"name": "s"}], ["s"])])
def test_teamwise_storage_without_names_means_the_default_storages(
    folder: Folder, storages: Any, expected: list[str]
) -> None:
    plugins = [{"plugin": "com.microsoft.pai.runtimeplugin.teamwise_storage", "taskroles": ["w"]}]
    extras = {"com.microsoft.pai.runtimeplugin": plugins, **({} if storages is None else {"storages": storages})}
    names = StorageNames(("d1", "s"), ("d1",))
    assert [
        mount.name for mount in folder.resolve([], extras=extras, inputs={"storage_names": names}).mounts
    ] == expected


def test_teamwise_storage_takes_names_from_parameters_and_reports_wrong_ones_in_place(folder: Folder) -> None:
    plugins = [{"plugin": "teamwise_storage", "parameters": {"storageConfigNames": ["a", "<% $parameters.which %>"]}}]
    extras = {"com.microsoft.pai.runtimeplugin": plugins}
    found = folder.resolve([], extras=extras, parameters={"which": "b"}).mounts
    assert [mount.name for mount in found] == ["a", "b"]
    names = StorageNames(("a",), (), {"b": "it is for others"})
    problem = folder.problem([], extras=extras, parameters={"which": "b"}, inputs={"storage_names": names})
    assert problem.message == "Storage b is not for you: it is for others. You may use 'a'"
    assert problem.where.endswith("parameters.storageConfigNames[1]")


def test_a_plugin_of_a_prerequisite_may_be_teamwise_storage(folder: Folder) -> None:
    item = {"name": "p", "type": "data", "plugin": "teamwise_storage", "storageConfigNames": ["a"]}
    assert folder.resolve(["p"], prerequisites=[item]).mounts == (Mount("a", "/mnt/a"),)
