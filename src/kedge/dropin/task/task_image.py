"""Which image a task uses, and by which credentials it is pulled: from the job's configuration, or without one from the
runtime's specification.

    image: {uri: registry.example.com/team/image:1, auth: {username: puller, password: <% $secrets.registry %>}}
"""

from __future__ import annotations

import os

from kedge.contract import render_text
from kedge.dropin.paths import JOB_CONFIG, SPEC_FILE, SPEC_VARIABLE, InitPaths, mounted_file
from kedge.dropin.task import documents, secret_values, task_source
from kedge.dropin.task.documents import InitDocument, InvalidDocument
from kedge.dropin.task.rendering import SECRETS, TaskReferences
from kedge.light.types import Any, Mapping, NamedTuple, Sequence

_ROLE_VARIABLES = ("FC_TASKROLE_NAME", "PAI_CURRENT_TASK_ROLE_NAME")
_AUTH_KEYS = ("username", "password", "registryuri")
_PARAMETERS = ("parameters",)
_Path = tuple[str | int, ...]


class TaskImage(NamedTuple):
    """`auth` has the keys username, password and registryuri, as far as they are set, with the values of secrets."""

    uri: str
    auth: Mapping[str, str]


class NotKnown(Exception):
    """The image cannot be found out. The message is the reason."""


def find(arguments: Sequence[str], paths: InitPaths, environment: Mapping[str, str]) -> TaskImage | None:
    """The image of this task; None if the configuration names none. `arguments` may be the paths of the job's
    configuration and of its secrets. NotKnown; UnknownReference: its name or credentials refer to something that does
    not exist."""
    job_file = arguments[0] if arguments else f"{paths.runtime_d}/{JOB_CONFIG}"
    if len(arguments) > 1:
        paths = paths._replace(secrets=arguments[1])
    try:
        if arguments or os.path.exists(job_file):
            document = documents.read(job_file)
            place = _place_of_role(document, environment)
        else:
            document = _runtime_specification(paths, environment)
            place = ("image",)
        return _rendered(document, place, paths)
    except InvalidDocument as error:
        raise NotKnown(str(error)) from None
    except OSError as error:
        raise NotKnown(f"{error.filename} cannot be read: {error.strerror}") from None


def _place_of_role(job: InitDocument, environment: Mapping[str, str]) -> _Path:
    """Where the prerequisite stands that is the image of this task's role."""
    wanted = next((environment[name] for name in _ROLE_VARIABLES if environment.get(name)), None)
    if wanted is None:
        raise NotKnown(f"the variable {_ROLE_VARIABLES[0]} is not set, so the task's role is not known")
    name, role = task_source.role_of(job, wanted)
    image, items = role.get("dockerImage"), job.value.get("prerequisites")
    for number, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict) and item.get("type") == "dockerimage" and item.get("name") == image:
            return ("prerequisites", number)
    raise NotKnown(
        f"{job.file} has no prerequisite of type dockerimage with the name {image}, which the task role {name} uses"
    )


def _runtime_specification(paths: InitPaths, environment: Mapping[str, str]) -> InitDocument:
    if text := environment.get(SPEC_VARIABLE, "").strip():
        return documents.parse(text, SPEC_VARIABLE)
    file = mounted_file(f"{paths.config}/{SPEC_FILE}")
    return documents.read(file) if os.path.exists(file) else documents.parse("", file)


def _rendered(document: InitDocument, place: _Path, paths: InitPaths) -> TaskImage | None:
    uri = _text(document, (*place, "uri"))
    uri = _text(document, place) if uri is None else uri  # `image: NAME` is short for `image: {uri: NAME}`
    if uri is None:
        return None
    auth = {key: text for key in _AUTH_KEYS if (text := _text(document, (*place, "auth", key))) is not None}
    secrets = secret_values.read(paths)
    references = TaskReferences(document, secrets.document)
    auth = {key: render_text(references.text(text, SECRETS), secrets.texts) for key, text in auth.items()}
    return TaskImage(render_text(references.text(uri, _PARAMETERS), {}), auth)


def _text(document: InitDocument, path: _Path) -> str | None:
    """The scalar at a path as it is written: 1.0 stays 1.0. None if there is none, or null."""
    value: Any = document.value
    for step in path:
        is_there = isinstance(value, list) or (isinstance(value, dict) and step in value)
        value = value[step] if is_there else None
    if value is None or isinstance(value, dict | list):
        return None
    found = document.texts.get(path)
    return value if isinstance(value, str) or found is None or found.scalar is None else found.scalar
