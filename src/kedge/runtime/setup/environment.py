"""The variables of the OpenPAI runtime, and which of them fit into a process environment."""

from __future__ import annotations

import os

from kedge import contract
from kedge.contract import SHELVED, TaskSpec
from kedge.light.types import Iterator, Mapping, MappingProxyType, MutableMapping, NamedTuple, Sequence
from kedge.peers import EnvironmentVariable, Peers, peer_variables
from kedge.runtime.files import read_file

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"  # where there is none
ERROR_FILE_VARIABLE = "TORCHELASTIC_ERROR_FILE"

_KEDGE = "KEDGE_"
_OUTER_JOB = ("PAI_", "FC_", _KEDGE)
# The variable that Python may set for itself in the C locale, and the values it may give it (PEP 538).
_COERCIBLE, _COERCED = "LC_CTYPE", ("C.UTF-8", "C.utf8", "UTF-8")
_NOTHING: Mapping[str, str] = MappingProxyType({})
_LONGEST_NAME = 60  # characters, in messages
_POINTER = 8  # bytes that the kernel counts for each string in addition to its text


class Environment(NamedTuple):
    """`variables` is the environment of the task's processes; `generated` has all variables that the runtime derived;
    `dropped` has the names and sizes (bytes) of those that did not fit, the largest first."""

    variables: dict[str, str]
    generated: tuple[EnvironmentVariable, ...]
    dropped: tuple[tuple[str, int], ...]


def restore(variables: MutableMapping[str, str]) -> None:
    """Restore the environment that this process was meant to have: variables that were hidden from its loader get their
    names back (see contract.LOADER_VARIABLES), and changes that Python itself made are undone."""
    for name in [name for name in variables if name.startswith(SHELVED)]:
        variables[name.removeprefix(SHELVED)] = variables.pop(name)
    undo_coercion(variables)


def undo_coercion(variables: MutableMapping[str, str]) -> None:
    """Undo the change that Python makes to the environment of its own process in the C locale."""
    if variables.get(_COERCIBLE) in _COERCED and (initial := _initial_variables()) is not None:
        del variables[_COERCIBLE]
        variables.update((_COERCIBLE, value) for name, _, value in initial if name == _COERCIBLE)


def build(
    inherited: Mapping[str, str],
    spec: TaskSpec,
    peers: Peers,
    log_pipe: str | None,
    secrets: Mapping[str, str],
    last: Mapping[str, str] = _NOTHING,
) -> Environment:
    """The environment of every process of the task. The variables of an outer job are not inherited. `last` come over
    all others."""
    outer = _OUTER_JOB if spec.env_file is None else (_KEDGE,)
    base = {name: value for name, value in inherited.items() if not name.startswith(outer)}
    base.pop(contract.RUNTIME_LOG_PIPE_VARIABLE, None)
    base.setdefault("PYTHONUNBUFFERED", "1")
    base.update({name: contract.render_text(text, secrets) for name, text in spec.env.items()})
    base.update(spec.environment)
    base[ERROR_FILE_VARIABLE] = error_file(base, spec)
    generated = (*peer_variables(spec.role, spec.task_index, peers), *own_variables(spec, log_pipe))
    kept, dropped = _fit(base, generated)
    base.update({name: value for name, value, _ in kept})
    base.update(last)
    return Environment(base, generated, dropped)


def parse_lines(data: bytes) -> tuple[dict[str, str], list[str]]:
    """The variables of a file with NAME=VALUE lines, and the beginnings of the lines that are something else. Empty
    lines and comments are skipped."""
    variables, wrong = {}, []
    for line in os.fsdecode(data).split("\n"):
        line = line.removesuffix("\r")
        name, sign, value = line.partition("=")
        if not line.strip() or line.startswith("#"):
            continue
        if sign and name.isascii() and name.isidentifier() and "\0" not in value:
            variables[name] = value
        else:
            wrong.append(name[:_LONGEST_NAME])
    return variables, wrong


def visible(inherited: Mapping[str, str], spec: TaskSpec) -> dict[str, str]:
    """The variables whose values are known without secrets."""
    plain = {name: contract.show_text(text) for name, text in spec.env.items()}
    return {**inherited, **plain, **spec.environment}


def error_file(variables: Mapping[str, str], spec: TaskSpec) -> str:
    """The file into which torchelastic writes the exception of the worker that failed first: the user's choice, or a
    file beside the logs."""
    return variables.get(ERROR_FILE_VARIABLE) or f"{spec.folder}/{contract.ERROR_FILE}"


def own_variables(spec: TaskSpec, log_pipe: str | None) -> Iterator[EnvironmentVariable]:
    """The variables that do not depend on the job's task roles."""
    yield EnvironmentVariable("PAI_WORK_DIR", spec.workdir)
    yield EnvironmentVariable("PAI_LOG_DIR", spec.folder)
    yield EnvironmentVariable(contract.OUTPUT_DIR_VARIABLE, spec.output_folder)
    yield EnvironmentVariable(contract.JOB_DIR_VARIABLE, spec.job_folder)
    if log_pipe:
        yield EnvironmentVariable(contract.RUNTIME_LOG_PIPE_VARIABLE, log_pipe)
    if spec.peers_file:
        yield EnvironmentVariable(contract.PEERS_FILE_VARIABLE, spec.peers_file)
    yield EnvironmentVariable(contract.JOB_ID_VARIABLE, spec.job_id)


def _initial_variables() -> list[tuple[str, str, str]] | None:
    """The variables that this process was started with. None where /proc does not show them."""
    try:
        entries = read_file("/proc/self/environ").split(b"\0")
    except OSError:
        return None
    return [os.fsdecode(entry).partition("=") for entry in entries]


def _fit(
    base: Mapping[str, str], generated: tuple[EnvironmentVariable, ...]
) -> tuple[Sequence[EnvironmentVariable], tuple[tuple[str, int], ...]]:
    """Leave out shared variables that are too long; leave out all shared ones if the environment would be too large."""
    sizes = [_size(name, value) for name, value, _ in generated]
    total = sum(_size(name, value) + _POINTER for name, value in base.items()) + sum(sizes) + _POINTER * len(sizes)
    limit = contract.ENVIRONMENT_STRING_LIMIT if total <= contract.ENVIRONMENT_TOTAL_LIMIT else 0
    if max(sizes) <= limit:
        return generated, ()
    kept, dropped = [], []
    for variable, size in zip(generated, sizes, strict=True):
        if variable.shared and size > limit:
            dropped.append((variable.name, size))
        else:
            kept.append(variable)
    return kept, tuple(sorted(dropped, key=lambda item: -item[1]))


def _size(name: str, value: str) -> int:
    length = len(value) if value.isascii() else len(value.encode("utf-8", "surrogateescape"))
    return len(name) + length + 2  # "=" and the final NUL
