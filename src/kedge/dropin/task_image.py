"""Which image a task uses, and by which credentials it is pulled: from the job's configuration, or without one from the
runtime's specification.

    image: {uri: registry.example.com/team/image:1, auth: {username: puller, password: <% $secrets.registry %>}}
"""

from __future__ import annotations

import os

from kedge import contract
from kedge.dropin.paths import JOB_CONFIG, InitPaths
from kedge.errors import InputError, Problem
from kedge.light.types import Any, Mapping, NamedTuple, Sequence

RUNTIME_VARIABLE = "RUNTIME_CONFIG"
RUNTIME_FILE = "runtime_plugin.yaml"
_ROLE_VARIABLES = ("FC_TASKROLE_NAME", "PAI_CURRENT_TASK_ROLE_NAME")
_AUTH_KEYS = ("username", "password", "registryuri")
_TAG = "<%"


class TaskImage(NamedTuple):
    """`auth` has the keys username, password and registryuri, as far as they are set, with the values of secrets."""

    uri: str
    auth: Mapping[str, str]


class NotKnown(Exception):
    """The image cannot be found out. The message is the reason."""


class WrongReference(Exception):
    """The name of the image, or its credentials, refer to something that does not exist. The message names it."""


def find(arguments: Sequence[str], paths: InitPaths, environment: Mapping[str, str]) -> TaskImage | None:
    """The image of this task; None if the configuration names none. `arguments` may be the paths of the job's
    configuration and of its secrets. NotKnown, WrongReference."""
    job_file = arguments[0] if arguments else f"{paths.runtime_d}/{JOB_CONFIG}"
    secrets_file = arguments[1] if len(arguments) > 1 else paths.secrets
    if arguments or os.path.exists(job_file):
        document = _read(job_file)
        place = _place_of_role(document, environment)
    else:
        document = _runtime_specification(paths, environment)
        place = ("image",)
    return _rendered(document, place, secrets_file)


class _Document(NamedTuple):
    """A YAML file that is a mapping. `marks` have the source texts of its scalars."""

    file: str
    value: Mapping[str, Any]
    marks: Mapping[Any, Any]

    def text(self, path: tuple[str | int, ...]) -> str | None:
        """The scalar at a path as it is written: 1.0 stays 1.0. None if there is none, or null."""
        value: Any = self.value
        for step in path:
            within = isinstance(value, list) or (isinstance(value, dict) and step in value)
            value = value[step] if within else None
        if value is None or isinstance(value, dict | list):
            return None
        mark = self.marks.get(path)
        return str(value) if mark is None or mark.scalar is None else mark.scalar


def _place_of_role(job: _Document, environment: Mapping[str, str]) -> tuple[str | int, ...]:
    """Where the prerequisite stands that is the image of this task's role."""
    role = next((environment[name] for name in _ROLE_VARIABLES if environment.get(name)), None)
    if role is None:
        raise NotKnown(f"the variable {_ROLE_VARIABLES[0]} is not set, so the task's role is not known")
    roles = _mapping(job.value.get("taskRoles"))
    # The variable has the role's name in Kubernetes, such as taskrole1 for taskrole_1.
    names = [name for name in roles if role in (name, contract.converted_role(str(name)))]
    name = role if role in names else next(iter(names), None)
    if name is None:
        raise NotKnown(f"{job.file} has no task role {role}")
    image = _mapping(roles[name]).get("dockerImage")
    items = job.value.get("prerequisites")
    for number, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict) and item.get("type") == "dockerimage" and item.get("name") == image:
            return ("prerequisites", number)
    raise NotKnown(
        f"{job.file} has no prerequisite of type dockerimage with the name {image}, which the role {name} uses"
    )


def _runtime_specification(paths: InitPaths, environment: Mapping[str, str]) -> _Document:
    if text := environment.get(RUNTIME_VARIABLE, "").strip():
        return _parsed(text, RUNTIME_VARIABLE)
    file = f"{paths.config}/{RUNTIME_FILE}"
    return _read(file) if os.path.exists(file) else _Document(file, {}, {})


def _rendered(document: _Document, place: tuple[str | int, ...], secrets_file: str) -> TaskImage | None:
    uri = document.text((*place, "uri"))
    uri = document.text(place) if uri is None else uri  # `image: NAME` is short for `image: {uri: NAME}`
    if uri is None:
        return None
    auth = {key: value for key in _AUTH_KEYS if (value := document.text((*place, "auth", key))) is not None}
    if _TAG in uri:
        uri = _filled_in(uri, "parameters", document, ("parameters",))
    if any(_TAG in value for value in auth.values()):
        secrets = _read(secrets_file) if os.path.exists(secrets_file) else _Document(secrets_file, {}, {})
        auth = {key: _filled_in(value, "secrets", secrets, ()) for key, value in auth.items()}
    return TaskImage(uri, auth)


def _filled_in(text: str, root: str, values: _Document, prefix: tuple[str, ...]) -> str:
    """The text with its references replaced by values of a document, as they are: no escaping of any kind."""
    from kedge.spec import references

    below: Any = values.value
    for step in prefix:
        below = _mapping(below.get(step))
    filled = ""
    try:
        parts = references.split(text)
    except references.TagError as error:
        raise WrongReference(error.message) from None
    for part in parts:
        if isinstance(part, str):
            filled += part
            continue
        if part.root != root:
            raise WrongReference(f"{part.source} does not work here; only references of ${root} do")
        found = references.lookup(part, below, values.marks, prefix)
        if not isinstance(found, str):
            raise WrongReference(f"{part.source}: {found.message}")
        filled += found
    return filled


def _read(file: str) -> _Document:
    from kedge.spec import files

    try:
        return _parsed(files.read_text(file), file)
    except InputError as error:
        raise NotKnown(str(error)) from None


def _parsed(text: str, file: str) -> _Document:
    from kedge.spec import yaml

    try:
        document = yaml.read_any(text, file)
    except InputError as error:
        lines = {problem.line for problem in error.problems if isinstance(problem, Problem)}
        place = f", see its line {min(lines)}" if lines else ""  # no more than that: the line itself may hold a secret
        raise NotKnown(f"{file} is not valid YAML{place}") from None
    return _Document(file, _mapping(document.value), document.source.marks)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
