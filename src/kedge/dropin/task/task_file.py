"""Writes kedge-task.json: the TaskSpec that `runtime` without arguments runs in the user's container."""

from __future__ import annotations

import os

from kedge.contract import LogPolicy, TaskSpec
from kedge.dropin.paths import ENV_FILE, EXIT_SPEC, PEERS_FILE, TASK_SPEC, pod_uid
from kedge.dropin.program import FAILED, SUCCEEDED, InitContext
from kedge.dropin.task import documents, plugin_steps, secret_values, ssh_access, task_source
from kedge.dropin.task.documents import InvalidDocument
from kedge.dropin.task.own_task import ThisTask
from kedge.dropin.task.plugin_steps import BrokenPlugin
from kedge.dropin.task.rendering import UnknownReference
from kedge.dropin.task.secret_values import JobSecrets
from kedge.dropin.task.task_source import TaskSource
from kedge.light import json
from kedge.light.types import Mapping, NamedTuple
from kedge.own_files import replace_file
from kedge.peers import UNKNOWN, Peer

EXIT_SPEC_JSON = "runtime-exit-spec.json"
_DEFAULT_ROLE = "task"  # without a framework
_ROLES = ("PAI_CURRENT_TASK_ROLE_NAME", "FC_TASKROLE_NAME")


class OwnPlace(NamedTuple):
    """Where this task runs."""

    task: ThisTask
    peer: Peer = UNKNOWN
    of_framework: bool = True


def write(context: InitContext, place: OwnPlace | None) -> int:
    """Write the file, and return the exit code of the init program; `place` is None without a framework. Where nothing
    says what to run, nothing is written."""
    try:
        return _write(context, place)
    except (InvalidDocument, UnknownReference) as error:
        context.log.error(str(error))
    except OSError as error:
        context.log.error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except BrokenPlugin:
        pass  # logged
    return FAILED


def _write(context: InitContext, place: OwnPlace | None) -> int:
    secrets = secret_values.read(context.paths)
    role = place.task.role if place else next(filter(None, map(context.environment.get, _ROLES)), None)
    source = task_source.find(context.paths, context.environment, role, secrets.document)
    if source is None:
        context.log.info(f"nothing names a command; {TASK_SPEC} is not written")
        return SUCCEEDED
    spec = _spec(context, place or _own_place(context), source, secrets)
    os.makedirs(context.paths.runtime_d, exist_ok=True)
    data = json.dumps(spec.to_json()).encode("utf-8", "surrogateescape")
    replace_file(f"{context.paths.runtime_d}/{TASK_SPEC}", data, 0o644, synced=False)
    return SUCCEEDED


def _spec(context: InitContext, place: OwnPlace, source: TaskSource, secrets: JobSecrets) -> TaskSpec:
    paths, variables = context.paths, context.environment
    peers = f"{paths.runtime_d}/{PEERS_FILE}"
    framework = variables.get("PAI_FRAMEWORK_NAME") or variables.get("PAI_JOB_NAME") or ""
    user, _, job = framework.partition("~")
    uid = pod_uid(variables)
    return TaskSpec(
        user=variables.get("PAI_USER_NAME") or (user if job else ""),
        job=job or framework or variables.get("FC_FRAMEWORK_NAME") or uid,
        job_id=variables.get("FC_FRAMEWORK_NAME") or uid,
        role=place.task.role,
        task_index=place.task.number,
        job_attempt=_number(variables, "FC_FRAMEWORK_ATTEMPT_ID"),
        task_attempt=_number(variables, "FC_TASK_ATTEMPT_ID"),
        uid=uid,
        folder=paths.logs,
        workdir="",  # where the user's container starts
        environment=_variables(place, uid),
        command=source.command,
        steps=plugin_steps.steps(source.uses, source.references, secrets, context),
        host=place.peer.host or "",
        ports=dict(place.peer.ports),
        peers_file=peers if os.path.exists(peers) else "",
        secrets_dir=secret_values.write(paths, secrets.texts | ssh_access.secret_texts(source.uses, secrets)),
        logs=LogPolicy(console=True),
        exit_spec=_exit_spec(context),
        pai_dir=paths.work,
        output_dir=f"{paths.work}/output",
        job_dir=f"{paths.work}/job-dir",
        env_file=f"{paths.runtime_d}/{ENV_FILE}",
    )


def _own_place(context: InitContext) -> OwnPlace:
    """The place of a task for which frameworkParser has not run. What envGenerator has written is used."""
    variables = context.environment
    role = next(filter(None, map(variables.get, _ROLES)), _DEFAULT_ROLE)
    task = ThisTask(role, _number(variables, "FC_TASK_INDEX"))
    host = next((variables[name] for name in ("HOST_IP", "POD_HOST_IP", "POD_IP") if variables.get(name)), None)
    try:
        with open(f"{context.paths.runtime_d}/{PEERS_FILE}", "rb") as file:
            found = json.loads(file.read())["roles"][role][task.number]
        return OwnPlace(task, Peer(found["host"], found["ports"]))
    except (OSError, ValueError, LookupError, TypeError):
        return OwnPlace(task, Peer(host, {}), of_framework=False)


def _variables(place: OwnPlace, uid: str) -> dict[str, str]:
    """Variables that the pod of the user's container may not have."""
    index = str(place.task.number)
    return {
        "PAI_CURRENT_TASK_ROLE_NAME": place.task.role,
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": index,
        "PAI_TASK_INDEX": index,
        **({} if place.of_framework else {"FC_POD_UID": uid}),
    }


def _number(variables: Mapping[str, str], name: str) -> int:
    text = variables.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else 0


def _exit_spec(context: InitContext) -> str | None:
    """The site's exit specification in JSON, which the supervisor reads. None without one, or for one that is wrong: a
    task must not fail for that."""
    source = f"{context.paths.runtime_d}/{EXIT_SPEC}"
    if not os.path.exists(source):
        return None
    try:
        value = documents.read(source).value
        data = json.dumps(value).encode("utf-8", "surrogateescape")
    except (InvalidDocument, TypeError, ValueError) as error:
        context.log.warning(f"the built-in exit specification applies: {error}")
        return None
    target = f"{context.paths.runtime_d}/{EXIT_SPEC_JSON}"
    replace_file(target, data, 0o644, synced=False)
    return target
