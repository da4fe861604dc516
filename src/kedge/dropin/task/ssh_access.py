"""What the plugin ssh gets in a pod: the key pair that OpenPAI keeps for a user's jobs, and the user's own public keys.
Both are in the user's extension."""

from __future__ import annotations

import os

from kedge.contract import JOB_SSH_HOST_KEY, JOB_SSH_KEY
from kedge.dropin.program import InitContext
from kedge.dropin.task.secret_values import JobSecrets
from kedge.dropin.task.task_source import PluginUse
from kedge.light.types import Any, Mapping, Sequence
from kedge.own_files import replace_file

PLUGIN = "ssh"
_FOLDER = "ssh-secret"  # in the work folder, as OpenPAI's plugin made it


def secret_texts(uses: Sequence[PluginUse], secrets: JobSecrets) -> dict[str, str]:
    """The values of the secrets that the plugin refers to. The job's key is also that of its servers, so that every
    task knows it; without one, a server makes a key for itself."""
    if all(use.plugin != PLUGIN for use in uses):
        return {}
    private = _job_keys(secrets)[0]
    return {JOB_SSH_KEY: private, JOB_SSH_HOST_KEY: private}


def with_access(use: PluginUse, secrets: JobSecrets, context: InitContext) -> PluginUse:
    """The use with what is known in this pod: jobssh is off where it cannot work, and the user's stored keys count if
    `userssh` is there. The key pair is written to ssh-secret. OSError."""
    parameters = dict(use.parameters)
    if _is_on(parameters.get("jobssh")) and (reason := _why_not(secrets, context.environment)):
        context.log.warning(f"ssh between the tasks of this job is off: {reason}")
        parameters["jobssh"] = False
    user = parameters.get("userssh")
    if user:
        parameters["publicKeys"] = [*_listed(parameters.get("publicKeys")), *_stored(secrets)]
    if not (_is_on(parameters.get("jobssh")) or parameters.get("publicKeys") or _has_value(user)):
        parameters.pop("userssh", None)  # nobody could log in
    _write_pair(secrets, context)
    return use._replace(parameters=parameters)


def _why_not(secrets: JobSecrets, environment: Mapping[str, str]) -> str | None:
    if environment.get("GANG_ALLOCATION") == "false":
        return "tasks that do not wait for each other do not know each other's addresses"
    if not _job_keys(secrets)[0]:
        return "no job ssh keys found; the user's extension has no jobSSH with key and pubKey"
    return None


def _job_keys(secrets: JobSecrets) -> tuple[str, str]:
    """The private and the public key of the user's jobs, each with one newline at its end; empty without them."""
    keys = secrets.extension.get("jobSSH")
    texts = (keys.get(name) if isinstance(keys, dict) else None for name in ("key", "pubKey"))
    private, public = (f"{text.strip()}\n" if isinstance(text, str) and text.strip() else "" for text in texts)
    return private, public


def _stored(secrets: JobSecrets) -> list[str]:
    """The public keys that the user has stored in the cluster."""
    keys = secrets.extension.get("sshKeys")
    values = [key.get("value") for key in keys if isinstance(key, dict)] if isinstance(keys, list) else []
    return [value for value in values if isinstance(value, str) and value.strip()]


def _write_pair(secrets: JobSecrets, context: InitContext) -> None:
    private, public = _job_keys(secrets)
    folder = f"{context.paths.work}/{_FOLDER}"
    for name, text, mode in (("ssh-privatekey", private, 0o600), ("ssh-publickey", public, 0o644)):
        if text:
            os.makedirs(folder, 0o755, exist_ok=True)
            replace_file(f"{folder}/{name}", text.encode(), mode, synced=False)


def _is_on(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")


def _has_value(user: Any) -> bool:
    value = user.get("value") if isinstance(user, dict) else user
    return any(value) if isinstance(value, list) else bool(value)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value] if value else []
