"""The ssh plugin: what its parameters mean, and which keys it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.contract import SSH_BARRIER, SSH_SERVER, TASK_STARTS, Action, Callback, SecretRef, Step
from kedge.plugins.base import ParameterError
from kedge.plugins.ssh import Ssh
from kedge.resolve import job_ssh
from kedge.testing.plugins import steps_of

DATA = "AAAAC3NzaC1lZDI1NTE5AAAAIP3cNkdc+3z64c5TZx8HLAbvVyhGC8CSz4BgRxUPrn9b"
KEY = f"ssh-ed25519 {DATA} me@home"
OTHER = KEY.replace("me@home", "another")


def actions(written: dict[str, Any]) -> list[Action]:
    return [callback.action for callback in steps_of(Ssh(), written).callbacks if callback.action]


def server(written: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the server."""
    (found,) = (action.parameters for action in actions(written) if action.kind == SSH_SERVER)
    return found


def test_the_server_is_a_service_with_the_keys_of_the_job_as_secrets() -> None:
    (callback,) = steps_of(Ssh(), {"jobssh": "True"}).callbacks
    assert (callback.event, callback.service) == (TASK_STARTS, "ssh")
    found = server({"jobssh": True})
    assert found["jobssh"]
    assert [part["key"] for name in ("key", "hostKey") for part in found[name]["text"]] == [
        "ssh job key", "ssh host key",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "written",
    [
        {"userssh": {"type": "custom", "value": f"{KEY}\r\n{OTHER}\r\n"}},
        {"userssh": {"type": "custom", "value": [KEY, OTHER]}},
        {"publicKeys": [f"  {KEY}\n", f"# a comment\r\n{OTHER}"]},
        {"userssh": {"type": "custom", "value": KEY}, "publicKeys": [OTHER]},
    ],
)
def test_each_key_of_a_user_is_one_line(written: dict[str, Any]) -> None:
    found = server(written)
    assert found["keys"] == [KEY, OTHER]
    assert not found["jobssh"]
    assert "key" not in found


def test_a_key_may_come_from_a_secret() -> None:
    text = (SecretRef("k", "<% $secrets.k %>"),)
    assert server({"publicKeys": [text]})["keys"] == [{"text": [text[0]._asdict()]}]


def test_keys_of_the_system_are_names_of_files() -> None:
    assert server({"userssh": {"type": "system", "value": "ssh-publickey"}})["keyFiles"] == ["ssh-publickey"]


def test_the_barrier_needs_ssh_between_tasks() -> None:
    kinds = [action.kind for action in actions({"jobssh": True, "sshbarrier": "true", "sshbarrierTimeout": 2})]
    assert kinds == [SSH_SERVER, SSH_BARRIER]
    assert actions({"jobssh": True, "sshbarrier": True, "sshbarrierTimeout": 2})[1].parameters == {"timeout_sec": 120}
    assert [a.kind for a in actions({"publicKeys": [KEY], "sshbarrier": True})] == [SSH_SERVER]


@pytest.mark.parametrize(
    "written",
    [{}, {"jobssh": False}, {"jobssh": "false", "sshbarrier": True}]
    + [{"userssh": user} for user in ({"type": "none"}, {"type": "custom"}, {"type": "custom", "value": "# no key"})],
)
def test_nothing_runs_if_nobody_could_log_in(written: dict[str, Any]) -> None:
    found = steps_of(Ssh(), written)
    assert found.callbacks == ()
    assert "nobody would log in" in found.notes[0]


@pytest.mark.parametrize(
    ("written", "path", "message"),
    [
        ({"publicKeys": [KEY, "AAAA"]}, ("publicKeys", 1), "must begin with its type"),
        ({"publicKeys": ["ssh-ed25519 AAAA me"]}, ("publicKeys", 0), "not a whole public key of type ssh-ed25519"),
        ({"publicKeys": [f"ssh-rsa {DATA}"]}, ("publicKeys", 0), "not a whole public key of type ssh-rsa"),
        ({"publicKeys": [f"ssh-ed25519 {DATA[:40]}"]}, ("publicKeys", 0), "not a whole public key"),
        ({"publicKeys": ["-----BEGIN OPENSSH PRIVATE KEY-----\nb3B"]}, ("publicKeys", 0), "is a private key"),
        ({"publicKeys": ["---- BEGIN SSH2 PUBLIC KEY ----"]}, ("publicKeys", 0), "ssh-keygen -i -f FILE"),
        ({"userssh": {"type": "custom", "value": ["x"]}}, ("userssh", "value", 0), "must begin with its type"),
        ({"userssh": {"type": "custom", "value": "x"}}, ("userssh", "value"), "must begin with its type"),
        ({"userssh": {"type": "mine"}}, ("userssh", "type"), "must be 'custom' or 'system' or 'none'"),
        ({"userssh": {"type": "system", "value": "../../etc/x"}}, ("userssh", "value"), "the name of a file"),
        ({"userssh": "x"}, ("userssh",), "must be a mapping"),
    ],
)
def test_a_wrong_key_is_an_error_at_its_place(written: dict[str, Any], path: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ParameterError, match=message) as raised:
        steps_of(Ssh(), written)
    assert raised.value.wrong[0].path == path


def step(name: str, written: dict[str, Any]) -> Step:
    return Step(name, (*steps_of(Ssh(), written).callbacks, Callback(TASK_STARTS, ("echo",))))


def test_a_task_has_one_server_for_all_uses_of_the_plugin() -> None:
    uses = [step("a", {"publicKeys": [KEY]}), step("b", {"jobssh": True, "publicKeys": [KEY, OTHER]})]
    steps, notes = job_ssh.adapted(uses, gang=True)
    (found,) = (c.action.parameters for each in steps for c in each.callbacks if c.action)
    assert (found["keys"], found["jobssh"], "key" in found) == ([KEY, OTHER], True, True)
    assert [len(each.callbacks) for each in steps] == [2, 1]
    assert notes == ()


def test_without_a_gang_there_is_no_ssh_between_tasks() -> None:
    steps, notes = job_ssh.adapted([step("a", {"jobssh": True, "sshbarrier": True, "publicKeys": [KEY]})], gang=False)
    (found,) = (c.action for c in steps[0].callbacks if c.action)
    assert found.kind == SSH_SERVER
    assert (found.parameters["jobssh"], "key" in found.parameters) == (False, False)
    assert notes == (job_ssh.NO_GANG,)
