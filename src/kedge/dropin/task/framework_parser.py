"""Init program: Turn a framework into the job's configuration, variables and the TaskSpec. As OpenPAI's program, it
prints the variables for `genenv FILE`, and the job's configuration for `genconf FILE`."""

from __future__ import annotations

import os

from kedge.dropin.paths import JOB_CONFIG
from kedge.dropin.program import FAILED, SUCCEEDED, InitContext
from kedge.dropin.task import env_generator
from kedge.dropin.task.documents import InvalidDocument, parse
from kedge.dropin.task.framework import CONFIG, Framework
from kedge.dropin.task.task_file import OwnPlace
from kedge.dropin.task.task_file import write as write_task
from kedge.dropin.task.task_source import role_names
from kedge.light.types import Sequence
from kedge.own_files import replace_file, write_all

_USAGE = "expected the arguments [genenv | genconf] FILE; FILE defaults to framework.json"
_GENCONF = "genconf"
_OWN_SETTINGS = "kedge"  # in `extras`; an engine of kedge applies them
_STDOUT = 1


def run(arguments: Sequence[str], context: InitContext) -> int:
    """Write job_config.yaml, the files of envGenerator, and kedge-task.json."""
    words = list(arguments)
    if words[:1] == [env_generator.GENENV]:
        return env_generator.run(words, context)
    only_print = words[:1] == [_GENCONF]
    words = words[1:] if only_print else words
    if len(words) > 1:
        context.log.error(_USAGE)
        return FAILED
    found = env_generator.read(words[0] if words else env_generator.DEFAULT_FILE, context)
    if found is None:
        return FAILED
    if not only_print:
        return _write(found, context)
    write_all(_STDOUT, found.annotations.get(CONFIG, "").encode())
    return SUCCEEDED


def _write(found: Framework, context: InitContext) -> int:
    config = found.annotations.get(CONFIG)
    names: list[str] = []
    if config is None:
        context.log.warning(f"the framework has no annotation {CONFIG}: the job's configuration is not known")
    else:
        os.makedirs(context.paths.runtime_d, exist_ok=True)
        path = f"{context.paths.runtime_d}/{JOB_CONFIG}"
        replace_file(path, config.encode("utf-8", "surrogateescape"), 0o644, synced=False)
        try:
            document = parse(config, path)
            names = role_names(document)
        except InvalidDocument as error:
            context.log.error(str(error))
            return FAILED
        extras = document.value.get("extras")
        if isinstance(extras, dict) and _OWN_SETTINGS in extras:
            context.log.warning(f"extras.{_OWN_SETTINGS} of the job has no effect in a pod of OpenPAI")
    written = env_generator.write(found, context, names)
    if written is None:
        return FAILED
    task, peers = written
    return write_task(context, OwnPlace(task, peers[task.role][task.number]))
