"""The git plugin: clones a repository before the task's command starts. The runtime clones: it classifies failures,
retries transient ones, and keeps credentials out of argv, environment and logs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from kedge.contract import TASK_STARTS, Action, Callback, Text
from kedge.plugins.base import GIT, Steps, action_value
from kedge.plugins.parameters import Parameter, ParameterError, Wrong, boolean, integer, list_of, string, text


class Git:
    """Clones `repo_uri` into `clone_dir`; the other parameters select what to fetch, and the credentials."""

    parameters = (
        Parameter("repo_uri", text, "the repository's address", required=True),
        Parameter("options", list_of(string), "options of git clone, each as one string", default=()),
        Parameter("clone_dir", string, "the target folder; defaults to /usr/local/pai/code"),
        Parameter("commit", string, "the commit, tag or branch to check out"),
        Parameter("depth", integer(minimum=1), "how many commits of history to fetch"),
        Parameter("sparse", list_of(string), "the only folders to check out", default=()),
        Parameter("submodules", boolean, "whether to fetch submodules as well", default=False),
        Parameter("username", text, "user name for a private repository"),
        Parameter("token", text, "password or token for a private repository"),
    )

    def steps(self, values: Mapping[str, Any]) -> Steps:
        _check(values)
        texts = {name: action_value(values[name]) for name in ("repo_uri", "username", "token") if values[name]}
        lists = {name: list(values[name]) for name in ("options", "sparse") if values[name]}
        plain = {name: values[name] for name in ("clone_dir", "commit", "depth", "submodules") if values[name]}
        return Steps((Callback(TASK_STARTS, action=Action(GIT, {**texts, **lists, **plain})),))


def _check(values: Mapping[str, Any]) -> None:
    if not "".join(map(str, values["repo_uri"])).strip():
        raise ParameterError(Wrong("must not be empty", ("repo_uri",)))
    if values["username"] and not values["token"]:
        raise ParameterError(Wrong("'username' needs a 'token'", ("username",), is_key=True))
    _check_address(values["repo_uri"])
    for index, option in enumerate(values["options"]):
        try:
            shlex.split(option)
        except ValueError:
            message = f"{option!r} has an unclosed quote, or ends with a backslash"
            raise ParameterError(Wrong(message, ("options", index))) from None
    for name in ("repo_uri", "commit"):
        first = (values[name] or ("",))[0]
        if isinstance(first, str) and first.startswith("-"):
            raise ParameterError(Wrong("must not start with '-'", (name,)))


def _check_address(uri: Text) -> None:
    """Checks an address without secrets; one with secrets is checked in the task."""
    if not all(isinstance(part, str) for part in uri):
        return
    try:
        parts = urlsplit("".join(map(str, uri)))
        _ = parts.scheme in ("http", "https") and parts.port
    except ValueError as error:
        message = f"is not a valid address ({error}); in a user name or password, write [ as %5B and ] as %5D"
        raise ParameterError(Wrong(message, ("repo_uri",))) from None
