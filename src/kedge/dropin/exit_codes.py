"""From the exit code of a step to that of the init container, by OpenPAI's tables. FrameworkController decides by the
latter whether to try the task again."""

from __future__ import annotations

from kedge.contract import SIGNAL_CODES
from kedge.light.types import Mapping, MappingProxyType, NamedTuple

# The steps, as log lines name them.
BARRIER = "FRAMEWORK_BARRIER"
RETRIEVER = "FRAMEWORK_RETRIEVER"
EXIT_SPEC = "ERROR_SPEC"
ENVIRONMENT = "ENV_GENERATOR"
PARSER = "PLUGIN_INITIALIZER"
PORTS = "PORT_CONFLICT_CHECKER"
IMAGE = "DOCKER_IMAGE_CHECKER"
COMMAND = "RENDER_USER_COMMAND"
STEPS = MappingProxyType({  # of the built-in programs
    "frameworkBarrier": BARRIER,
    "frameworkRetriever": RETRIEVER,
    "envGenerator": ENVIRONMENT,
    "frameworkParser": PARSER,
    "portChecker": PORTS,
    "imageChecker": IMAGE,
    "userCommandRender": COMMAND,
})  # fmt: skip

BROKE = 1  # shown as 256, "runtime exit abnormally"
_IMAGE_ERROR = 254
_FRAMEWORK = {200: 250, 201: 251, 210: 252}  # transient, no gang allocation in time, permanent
_MAPPED: Mapping[str, Mapping[int, int]] = {BARRIER: _FRAMEWORK, RETRIEVER: _FRAMEWORK, PORTS: {10: 253}}


class ErrorMapping(NamedTuple):
    """A row `errors` of a specification: the container ends with `mapped` when the program ends with `origin`."""

    name: str
    origin: int
    mapped: int


def container_code(step: str, code: int, errors: tuple[ErrorMapping, ...] = ()) -> int:
    """The exit code of the container after `step` has failed with `code`, as a shell shows it. The step's own rows come
    first, then signals, then the table for the step."""
    for row in errors:
        if row.origin == code:
            return row.mapped
    if code in SIGNAL_CODES:
        return code
    return _IMAGE_ERROR if step == IMAGE else _MAPPED.get(step, {}).get(code, BROKE)
