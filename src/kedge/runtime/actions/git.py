"""The action `git`: clones a repository into a temporary folder, and moves it into place when it is complete.

Parameters: `repo_uri`; `clone_dir`; `options` of git clone, each a string like `--depth 1`; `commit`; `depth`;
`sparse`, a list of folders; `submodules`; `username` and `token`; `patience` (kedge.runtime.actions.backoff.Backoff).
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from kedge.contract import SHELL_NOT_FOUND
from kedge.own_files import write_all
from kedge.peers import quote
from kedge.runtime.actions import addresses, git_failures, staging
from kedge.runtime.actions.backoff import Backoff
from kedge.runtime.actions.base import ActionFailed, ActionJob, expand, required

_HELPER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "git_credential.py")
_KEPT_LINES = 200  # of git's output, to find out why it failed
_LONGEST_LINE = 1 << 16  # bytes; a server may send an endless line
# A server that sends less than 1000 bytes a second for 60 seconds is considered hung.
_CONFIG = ("credential.helper=", "core.askPass=", "http.lowSpeedLimit=1000", "http.lowSpeedTime=60")
_ENVIRONMENT = {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "LANGUAGE": "C", "SSH_ASKPASS_REQUIRE": "never"}


class GitCommand(NamedTuple):
    """How git is run: `config` settings, its environment, and the descriptor of the credentials, if there are any."""

    job: ActionJob
    config: tuple[str, ...]
    environment: dict[str, str]
    credentials: int | None

    def __call__(self, *arguments: str, folder: str | None = None) -> None:
        """Run one git command, with its output in the log. ActionFailed explains a failure."""
        _check_arguments(arguments)
        settings = [word for setting in self.config for word in ("-c", setting)]
        place = ("-C", folder) if folder else ()
        inherited = () if self.credentials is None else (self.credentials,)
        with subprocess.Popen(
            ["git", *settings, *place, *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=self.environment, pass_fds=inherited,
        ) as process:  # fmt: skip
            assert process.stdout
            lines: list[str] = []
            while line := process.stdout.readline(_LONGEST_LINE):
                text = line.decode(errors="replace").rstrip("\n").rpartition("\r")[2]
                self.job.log(text)
                lines = [*lines[1 - _KEPT_LINES :], text]
        if process.returncode:
            raise git_failures.explain("\n".join(lines), process.returncode)

    def has_commit(self, name: str, folder: str) -> bool:
        """Whether the clone has the commit `name`."""
        return self._query("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", folder=folder) is not None

    def is_shallow(self, folder: str) -> bool:
        """Whether the clone lacks a part of the history."""
        return self._query("rev-parse", "--is-shallow-repository", folder=folder) == b"true"

    def _query(self, *arguments: str, folder: str) -> bytes | None:
        _check_arguments(arguments)
        done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, env=self.environment, check=False)
        return None if done.returncode else done.stdout.strip()


class RepositoryAddress(NamedTuple):
    """A repository's address without credentials, and the credentials."""

    uri: str
    username: str = ""
    password: str = ""


def run(parameters: Mapping[str, Any], job: ActionJob) -> None:
    """Clone the repository. ActionFailed explains a failure."""
    address = split(required(parameters, "repo_uri", "git"), parameters.get("username"), parameters.get("token"))
    _refuse_secrets(job, address.uri, *parameters.get("options", ()))
    if not shutil.which("git"):
        raise ActionFailed("git is not installed in the task's image", "command_not_found", code=SHELL_NOT_FOUND)
    target = expand(parameters.get("clone_dir") or f"{job.pai}/code")
    if not staging.is_free(target):
        message = f"fatal: destination path '{target}' already exists and is not an empty directory."
        raise ActionFailed(message, "output_path_error", code=128)
    patience = Backoff.of(parameters)
    patience.spread(job)
    git = _git(job, address)
    with staging.beside(target) as folder:
        clone = os.path.join(folder, "clone")
        patience.retry(job, lambda: _clone(git, address.uri, clone, parameters))
        staging.put(clone, target)
    job.log(f"cloned {address.uri} into {target}")


def split(uri: str, username: str | None, token: str | None) -> RepositoryAddress:
    """Remove user name and password from an http address; `username` and `token` take precedence over them.
    ActionFailed (bad_config) if the address or the credentials are not valid."""
    addresses.check(uri)
    parts = urlsplit(uri)
    if parts.scheme not in addresses.HTTP:
        return RepositoryAddress(uri, username or "", token or "")
    addresses.parse(uri)
    clean = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    name = (username or unquote(parts.username or "")).rstrip("\r\n")
    password = (token or unquote(parts.password or "")).rstrip("\r\n")
    if any(character in name + password for character in "\r\n\0"):
        raise ActionFailed(
            "the user name or the token for 'repo_uri' has several lines or a NUL character", "bad_config"
        )
    return RepositoryAddress(clean, name or ("x-access-token" if password else ""), password)


def _check_arguments(arguments: tuple[str, ...]) -> None:
    for each in arguments:
        try:
            if b"\0" in os.fsencode(each):
                raise ValueError("it has a NUL character")
        except ValueError as error:
            message = f"git cannot take the argument '{addresses.plain(each)}': {error}"
            raise ActionFailed(message, "bad_config") from error


def _refuse_secrets(job: ActionJob, *arguments: str) -> None:
    if any(secret and secret in argument for secret in job.secrets for argument in arguments):
        raise ActionFailed(
            "a secret in the path of 'repo_uri' or in 'options' would be visible to everybody on the machine; pass it "
            "as 'token' or as https://USER:SECRET@…", "bad_config",
        )  # fmt: skip


def _git(job: ActionJob, address: RepositoryAddress) -> GitCommand:
    environment = {name: value for name, value in os.environ.items() if name not in ("GIT_ASKPASS", "SSH_ASKPASS")}
    environment |= _ENVIRONMENT
    environment.setdefault("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
    if not address.username:
        return GitCommand(job, _CONFIG, environment, None)
    parts = urlsplit(address.uri)
    login = {"protocol": parts.scheme, "host": parts.netloc, "username": address.username, "password": address.password}
    fd = os.memfd_create("kedge-git", os.MFD_CLOEXEC)
    write_all(fd, json.dumps(login).encode())
    helper = f"credential.helper=!{quote(sys.executable)} -I -S {quote(_HELPER)} {fd}"
    return GitCommand(job, (*_CONFIG, helper), environment, fd)


def _clone(git: GitCommand, uri: str, folder: str, parameters: Mapping[str, Any]) -> None:
    """Try once. If the commit is not in a shallow clone, it is fetched separately."""
    shutil.rmtree(folder, ignore_errors=True)
    commit, sparse = parameters.get("commit"), parameters.get("sparse")
    git("clone", *_options(parameters), "--", uri, folder)
    if sparse:
        git("sparse-checkout", "set", *sparse, folder=folder)
    if commit:
        git("checkout", "--quiet", "--detach", _find(git, commit, folder, parameters), folder=folder)
    elif sparse:
        git("checkout", "--quiet", folder=folder)
    if parameters.get("submodules"):
        git("submodule", "update", "--init", "--recursive", *_depth(parameters), folder=folder)


def _find(git: GitCommand, commit: str, folder: str, parameters: Mapping[str, Any]) -> str:
    """The name to check out for a commit, tag or branch. If a shallow clone does not contain it, it is fetched; as the
    server may refuse to send a single commit, the last resort is to fetch the whole history."""
    names = (f"refs/remotes/origin/{commit}", commit)
    if known := next((name for name in names if git.has_commit(name, folder)), None):
        return known
    try:
        git("fetch", *_depth(parameters), "origin", commit, folder=folder)
    except ActionFailed as failed:
        if failed.transient or not git.is_shallow(folder):
            raise
        git("fetch", "--unshallow", "origin", folder=folder)
        return commit
    return "FETCH_HEAD"


def _options(parameters: Mapping[str, Any]) -> Iterator[str]:
    for option in parameters.get("options", ()):
        try:
            yield from shlex.split(option)
        except ValueError as error:
            raise ActionFailed(
                f"the git option '{addresses.plain(option)}' cannot be parsed: {error}", "bad_config"
            ) from error
    yield from _depth(parameters)
    if parameters.get("commit") or parameters.get("sparse"):
        yield "--no-checkout"


def _depth(parameters: Mapping[str, Any]) -> list[str]:
    return ["--depth", str(parameters["depth"])] if parameters.get("depth") else []
