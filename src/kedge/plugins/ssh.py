"""The ssh plugin: a server in every task, keys of the job's own for ssh between its tasks, and its user's keys."""

from __future__ import annotations

import base64
import binascii

from kedge.contract import (
    JOB_SSH_HOST_KEY,
    JOB_SSH_KEY,
    SSH_BARRIER,
    SSH_SERVER,
    TASK_STARTS,
    Action,
    Callback,
    SecretRef,
    Text,
    text_to_json,
)
from kedge.light.types import Any, Iterator, Mapping
from kedge.plugins.base import Steps, action_value
from kedge.plugins.parameters import Parameter, ParameterError, Wrong, boolean, list_of, number, one_of, read, text

Path = tuple[str | int, ...]
SERVICE = "ssh"
CUSTOM, SYSTEM, NONE = "custom", "system", "none"
_KEY = SecretRef(JOB_SSH_KEY, "(the job's ssh key)")
_HOST_KEY = SecretRef(JOB_SSH_HOST_KEY, "(the job's ssh host key)")
_KINDS = ("ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-", "rsa-sha2-")
_USER = (
    Parameter("type", one_of(CUSTOM, SYSTEM, NONE), "the source of the keys"),
    Parameter("value", list_of(text, or_one=True), "the public keys", default=()),
)


class Ssh:
    """ssh between the tasks of a job, and for its user."""

    parameters = (
        Parameter("jobssh", boolean, "whether the job's tasks can reach each other by ssh", default=False),
        Parameter("sshbarrier", boolean, "whether tasks wait until all others are reachable", default=False),
        Parameter("sshbarrierTimeout", number(minimum=0), "how long they wait, in minutes", default=30.0),
        Parameter("userssh", lambda value: value, "public keys of the user: type and value", default={}),
        Parameter("publicKeys", list_of(text, or_one=True), "more public keys", default=()),
        Parameter("imageSshd", boolean, "whether the image's own sshd serves, if there is one", default=False),
    )

    def steps(self, values: Mapping[str, Any]) -> Steps:
        keys, files = _user_keys(values["userssh"])
        keys += [key for n, written in enumerate(values["publicKeys"]) for key in _keys(written, ("publicKeys", n))]
        if not (values["jobssh"] or keys or files):
            return Steps(notes=("nobody would log in: jobssh is false, and there is no public key; no server starts",))
        own = {"key": _reference(_KEY)} if values["jobssh"] else {}
        server = {
            "jobssh": values["jobssh"],
            **own,
            "hostKey": _reference(_HOST_KEY),
            "keys": [action_value(key) for key in keys],
            "keyFiles": files,
            "imageSshd": values["imageSshd"],
        }
        callbacks = [Callback(TASK_STARTS, action=Action(SSH_SERVER, server), service=SERVICE)]
        if values["jobssh"] and values["sshbarrier"]:
            seconds = values["sshbarrierTimeout"] * 60
            callbacks.append(Callback(TASK_STARTS, action=Action(SSH_BARRIER, {"timeout_sec": seconds})))
        return Steps(tuple(callbacks))


def _reference(key: SecretRef) -> dict[str, Any]:
    return {"text": text_to_json((key,))}


def _user_keys(written: Any) -> tuple[list[Text], list[str]]:
    """The keys of `userssh`, and the names of files with keys (`system`, of older OpenPAI)."""
    if not isinstance(written, Mapping):
        raise ParameterError(Wrong("must be a mapping with 'type' and 'value'", ("userssh",)))
    try:
        user = read(_USER, written)
    except ParameterError as error:
        raise ParameterError(*(item._replace(path=("userssh", *item.path)) for item in error.wrong)) from None
    is_list = isinstance(written.get("value"), list)
    places: list[Path] = [("userssh", "value", *([n] if is_list else [])) for n in range(len(user["value"]))]
    if user["type"] in (None, NONE):
        return [], []
    if user["type"] == SYSTEM:
        return [], [_file_name(name, place) for name, place in zip(user["value"], places, strict=True)]
    return [key for value, place in zip(user["value"], places, strict=True) for key in _keys(value, place)], []


def _file_name(written: Text, place: Path) -> str:
    name = "".join(map(str, written))
    if any(isinstance(part, SecretRef) for part in written) or "/" in name or name in ("", ".", ".."):
        raise ParameterError(Wrong("must be the name of a file in ssh-secret, because the type is 'system'", place))
    return name


def _keys(written: Text, place: Path) -> Iterator[Text]:
    """The keys in a text, one a line. One with a secret in it is checked in the task."""
    if any(isinstance(part, SecretRef) for part in written):
        yield written
        return
    for line in "".join(map(str, written)).replace("\r", "\n").split("\n"):
        if line.strip() and not line.lstrip().startswith("#"):
            if wrong := _wrong(line.strip()):
                raise ParameterError(Wrong(wrong, place))
            yield (line.strip(),)


def _wrong(line: str) -> str | None:
    """What is wrong with a public key in OpenSSH's form: `ssh-ed25519 AAAA… comment`."""
    if "PRIVATE KEY" in line:
        return "is a private key, which must stay where it is; use the public key, from the file that ends in .pub"
    if line.startswith("---- BEGIN SSH2"):
        return "is a public key in another format; convert it with: ssh-keygen -i -f FILE"
    kind, _, rest = line.partition(" ")
    data = (rest.split() or [""])[0]
    if not kind.startswith(_KINDS):
        return "is not a public key: it must begin with its type, such as ssh-ed25519 or ssh-rsa"
    try:
        blob = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        blob = b""
    name = kind.encode()
    if blob[:4] != len(name).to_bytes(4, "big") or blob[4 : 4 + len(name)] != name or len(blob) < len(name) + 36:
        return f"is not a whole public key of type {kind}: copy the line of the .pub file as it is"
    return None
