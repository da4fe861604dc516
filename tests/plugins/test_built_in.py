"""The steps that the built-in plugins give for their parameters."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.contract import CONTAINER_EXIT, TASK_FAILS, TASK_STARTS, TASK_SUCCEEDS, Action, Callback, SecretRef
from kedge.lazy_modules import PLUGINS
from kedge.plugins.base import ParameterError, Plugin, Steps, Storage
from kedge.plugins.cmd import Cmd
from kedge.plugins.download import Download
from kedge.plugins.git import Git
from kedge.plugins.ssh import Ssh
from kedge.plugins.storage import PvcStorage, RestStorage, TeamwiseStorage
from kedge.plugins.tensorboard import Tensorboard
from kedge.resolve.plugins import find
from kedge.spec.schema import schema
from kedge.testing.plugins import conforms, steps_of

DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
USER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP3cNkdc+3z64c5TZx8HLAbvVyhGC8CSz4BgRxUPrn9b me@home"
SECRET = SecretRef("token", "<% $secrets.token %>")
EXAMPLES: dict[type[Plugin], list[dict[str, Any]]] = {
    Cmd: [{}, {"preCommands": ["a"], "postCommands": ["b"]}, {"callbacks": [{"event": "taskFails", "commands": []}]}],
    Git: [{"repo_uri": "u"}, {"repo_uri": "u", "username": "me", "token": "t", "sparse": ["a"], "options": ["-q"]}],
    Download: [{"uri": "u"}, {"uri": ["u", "v"], "path": "data", "sha256": [DIGEST, DIGEST]}],
    PvcStorage: [{"name": "s", "mountPath": "/m"}],
    RestStorage: [{"config": "s"}],
    Ssh: [{}, {"jobssh": "True", "userssh": {"type": "custom", "value": ""}, "publicKeys": [USER_KEY]}],
    Tensorboard: [{}, {"port": 6006, "logdir": {"a": "/b"}}],
    TeamwiseStorage: [{"storageConfigNames": ["share"]}],
}  # fmt: skip


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_every_built_in_plugin_conforms(kind: type[Plugin]) -> None:
    assert len(conforms(kind(), *EXAMPLES[kind])) == len(EXAMPLES[kind])


def test_every_built_in_plugin_is_in_the_list_above() -> None:
    assert {type(find(name)) for name in PLUGINS} == set(EXAMPLES)


@pytest.mark.parametrize("name", [name for name in PLUGINS if f"{name}Parameters" in schema()["$defs"]])
def test_the_schema_and_the_plugin_have_the_same_parameters(name: str) -> None:
    shape = schema()["$defs"][f"{name}Parameters"]
    table = find(name).parameters
    assert table is not None
    assert {parameter.name for parameter in table} == set(shape["properties"])
    required = {parameter.name for parameter in table if parameter.required}
    assert required == set(shape.get("required", ())) or name == "tensorboard"


def actions(plugin: Plugin, written: dict[str, Any]) -> list[Action]:
    callbacks = steps_of(plugin, written).callbacks
    assert {callback.event for callback in callbacks} == {TASK_STARTS}
    return [callback.action for callback in callbacks if callback.action]


def test_cmd_runs_lines_at_all_events_in_order() -> None:
    listed = [
        ("containerExits", ["a"]),
        ("taskFails", ["b", ("c", SECRET)]),
        ("containerStart", ["d"]),
        ("taskStarts", []),
    ]
    written = {"callbacks": [{"event": event, "commands": commands} for event, commands in listed]}
    assert steps_of(Cmd(), written).callbacks == (
        Callback(CONTAINER_EXIT, ("a", "\n")),
        Callback(TASK_FAILS, ("b", "\n", "c", SECRET, "\n")),
        Callback(TASK_STARTS, ("d", "\n")),
    )


def test_cmd_has_lines_before_and_after() -> None:
    steps = steps_of(Cmd(), {"preCommands": ["a"], "postCommands": ["b"]})
    assert steps.callbacks == (Callback(TASK_STARTS, ("a", "\n")), Callback(TASK_SUCCEEDS, ("b", "\n")))
    assert steps_of(Cmd(), {}) == Steps()


def test_git_is_an_action_with_the_given_parameters() -> None:
    written = {"repo_uri": "https://h/r", "options": ["--depth 1"], "commit": "c", "depth": "3", "submodules": True}
    assert actions(Git(), written) == [Action("git", {**written, "depth": 3})]
    assert actions(Git(), {"repo_uri": "u", "clone_dir": "/code"}) == [
        Action("git", {"repo_uri": "u", "clone_dir": "/code"})
    ]


def test_a_secret_goes_into_an_action_as_a_reference() -> None:
    (action,) = actions(Git(), {"repo_uri": "u", "username": "me", "token": (SECRET,)})
    assert action.parameters["token"] == {"text": [SECRET._asdict()]}
    assert action.parameters["username"] == "me"


def test_downloads_are_one_action_for_each_address() -> None:
    assert actions(Download(), {"uri": "u", "sha256": DIGEST.upper(), "path": "d/f", "unpack": "false"}) == [
        Action("download", {"uri": "u", "sha256": DIGEST, "path": "d/f", "unpack": False})
    ]
    assert actions(Download(), {"uri": ["u", ("v?", SECRET)], "path": "d"}) == [
        Action("download", {"uri": "u", "path": "d/", "unpack": True}),
        Action("download", {"uri": {"text": ["v?", SECRET._asdict()]}, "path": "d/", "unpack": True}),
    ]


def test_storage_plugins_request_storages_with_mount_paths() -> None:
    assert steps_of(PvcStorage(), {"name": "s", "mountPath": "/m//a/"}).storages == (Storage("s", "/m/a"),)
    assert steps_of(RestStorage(), {"config": "s"}).storages == (Storage("s", "/mnt/s"),)
    older = steps_of(TeamwiseStorage(), {"storageConfigNames": ["s", "t"]})
    assert older.storages == (Storage("s", "/mnt/s"), Storage("t", "/mnt/t"))


def test_tensorboard_is_an_optional_service_with_a_port_of_its_own() -> None:
    without = steps_of(Tensorboard(), {})
    assert (without.callbacks, without.ports) == ((), ())
    assert "does not start without the parameters" in without.notes[0]
    found = steps_of(Tensorboard(), {"port": 6006, "logdir": {"a": "/b"}})
    (callback,) = found.callbacks
    assert (callback.event, callback.service, found.optional, found.ports) == (
        TASK_STARTS, "tensorboard", True, ("tensorboard",),
    )  # fmt: skip
    assert callback.action == Action("tensorboard", {"port": 6006, "logdir": {"a": "/b"}})


@pytest.mark.parametrize(
    ("plugin", "written", "message"),
    [
        (Cmd(), {"callbacks": [{"event": "taskStart", "commands": []}]}, "must be 'taskStarts' or .*, not 'taskStart'"),
        (Cmd(), {"callbacks": ["a"]}, "must be a mapping with 'event' and 'commands'"),
        (Cmd(), {"callbacks": [{"event": "taskFails", "commands": ["a"]}], "preCommands": ["b"]}, "cannot be combined"),
        (Git(), {}, "the parameter 'repo_uri' is missing"),
        (Git(), {"repo_uri": " "}, "must not be empty"),
        (Git(), {"repo_uri": "--upload-pack=x"}, "must not start with '-'"),
        (Git(), {"repo_uri": "u", "commit": "-f"}, "must not start with '-'"),
        (Git(), {"repo_uri": "u", "username": "me"}, "'username' needs a 'token'"),
        (Git(), {"repo_uri": "http://[::1/x"}, "is not a valid address .*Invalid IPv6 URL"),
        (Git(), {"repo_uri": "https://host:port/x"}, "is not a valid address .*Port could not be cast"),
        (Git(), {"repo_uri": "u", "options": ["-q", "--branch 'v1"]}, "an unclosed quote, or ends with a backslash"),
        (Git(), {"repo_uri": "u", "depht": 1}, "unknown parameter 'depht'; did you mean 'depth'"),
        (Download(), {"uri": []}, "must not be empty"),
        (Download(), {"uri": "u", "sha256": "abc"}, "must be a SHA-256: 64 hex digits, not 3 characters"),
        (Download(), {"uri": ["u", "v"], "sha256": DIGEST}, "has 1 entries for 2 addresses"),
        (PvcStorage(), {"name": "s", "mountPath": "m"}, "must be an absolute path"),
        (PvcStorage(), {"name": "s", "mountPath": "/m/../.."}, "must be an absolute path"),
        (Tensorboard(), {"port": 1}, "the parameter 'logdir' is missing"),
        (Ssh(), {"jobssh": "yes"}, "must be true or false"),
    ],
)  # fmt: skip
def test_invalid_parameters_are_refused(plugin: Plugin, written: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        steps_of(plugin, written)
