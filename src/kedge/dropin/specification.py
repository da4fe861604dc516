"""Which specification an init phase follows, first found wins: INIT_CONFIG, init_plugins.yaml, the built-in list."""

from __future__ import annotations

import errno
import os

from kedge import user_files
from kedge.dropin.init_log import InitLog
from kedge.dropin.paths import (
    COMMAND_FILE_VARIABLE,
    COMMAND_VARIABLE,
    SPEC_FILE,
    SPEC_VARIABLE,
    InitPaths,
    mounted_file,
)
from kedge.dropin.steps import InitPlugin
from kedge.light.types import Mapping, NamedTuple

LABEL = "INIT_CONFIG"  # the step's name in the log
FRAMEWORK_VARIABLE = "FC_FRAMEWORK_NAME"
INIT_VARIABLE = "INIT_CONFIG"
INIT_FILE = "init_plugins.yaml"
_LARGEST = 1 << 20  # bytes


class Found(NamedTuple):
    """What decides which steps there are. `plugins` is None for the built-in list. `names_a_command`: what to run is
    known without a framework, too."""

    plugins: tuple[InitPlugin, ...] | None
    of_framework: bool
    names_a_command: bool


def find(paths: InitPaths, environment: Mapping[str, str], log: InitLog) -> Found | None:
    """The specification. None if it is wrong; the log has the reasons then."""
    text, file = _text(paths, environment)
    command = any(
        environment.get(name, "").strip() for name in (SPEC_VARIABLE, COMMAND_VARIABLE, COMMAND_FILE_VARIABLE)
    )
    known = command or os.path.exists(f"{paths.config}/{SPEC_FILE}")
    found = Found(None, bool(environment.get(FRAMEWORK_VARIABLE)), known)
    if not text.strip():
        log.info("the built-in list of init programs runs")
        return found
    from kedge.dropin import init_spec  # YAML and the checks are slow to load
    from kedge.errors import InputError

    log.info(f"the init programs of {file} run")
    try:
        spec = init_spec.read(text, file)
    except InputError as error:
        for problem in error.problems:
            log.error(str(problem))
        if "\n" not in text.strip():
            log.error(
                f"{file} is a single line; in the file of a pod, put it after `value: |-`, because `>-` joins lines"
            )
        return None
    for warning in spec.warnings:
        log.warning(str(warning))
    return found._replace(plugins=spec.plugins)


def _text(paths: InitPaths, environment: Mapping[str, str]) -> tuple[str, str]:
    """The text of a specification, empty without one, and its name for messages."""
    if (text := environment.get(INIT_VARIABLE, "")).strip():
        return text, INIT_VARIABLE
    path = mounted_file(f"{paths.config}/{INIT_FILE}")
    try:
        return user_files.read(path, _LARGEST).decode("utf-8-sig"), path
    except FileNotFoundError:
        return "", path
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, f"it is not UTF-8 text: {error.reason}", path) from error
