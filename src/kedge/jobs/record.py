"""What a run was made of: written into its folder when it is submitted, and read to run the job again.

The job file, the code and the options are elsewhere in the run folder. Here are the lock, and the documents and rule
files from outside the job file. A document that holds a secret of the job is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from kedge import untrusted, user_files
from kedge.errors import InputError
from kedge.jobs.preparation import PreparedJob
from kedge.late_patterns import late_pattern
from kedge.resolve import given_environment, lock_file
from kedge.resolve.model import Inputs, RunRecord
from kedge.runs.atomic_files import write_atomic
from kedge.runs.folder import Run, RunInfo
from kedge.runs.run_options import RunOptions
from kedge.spec.files import STDIN, decode
from kedge.spec.message_text import show_path
from kedge.spec.redact import masked_text

LOCK = "job.lock"
DOCUMENTS = "documents"
_LARGEST = 16 << 20  # bytes of a lock or of a file of rules
_RULES = late_pattern(r"rules-(\d+)(\.\w+)?")


def write(run: Run, prepared: PreparedJob, secrets: Collection[str]) -> None:
    """Write the record of a job that is being submitted, if there is something to write. DiskFull, InputError."""
    lock, rules = prepared.locked.new, prepared.plan.rules
    if lock == lock_file.EMPTY and not rules:
        return
    (run.inputs / DOCUMENTS).mkdir(parents=True, mode=0o700)
    for sha256, data in prepared.documents.items():
        text = data.decode(errors="surrogateescape")
        if masked_text(text, secrets) == text:
            write_atomic(run.inputs / DOCUMENTS / sha256, data, followed=True)
    for number, path in enumerate(rules):
        write_atomic(run.inputs / f"rules-{number}{os.path.splitext(path)[1]}", _read(path), followed=True)
    text = masked_text(json.dumps(lock.to_json(), indent=2), secrets)
    write_atomic(run.inputs / LOCK, f"{text}\n".encode())


def options(inputs: Inputs, prepared: PreparedJob, engine: Mapping[str, Any]) -> RunOptions:
    """The options of a job that is being submitted."""
    taken = {given_environment.reference(name).key for name in inputs.taken_env}
    given = {show_path((name,)): name for name in inputs.secrets}  # a name may be that of a part: `keys[0].name`
    texts = {given.get(key, key) for key in prepared.secrets.texts}
    known = {*texts, *(inputs.record.secrets if inputs.record else ())} - taken
    return RunOptions(
        parameters=inputs.parameters,
        secrets=prepared.needed_secrets,
        more_secrets=tuple(sorted(known - {*prepared.needed_secrets})),
        env=inputs.env,
        env_from_shell=tuple(inputs.taken_env),
        workdir=_absolute(inputs.workdir) if inputs.workdir is not None else None,
        rules=tuple(map(_absolute, inputs.rules)),
        marketplace=inputs.marketplace,
        hosts=inputs.hosts,
        offline=inputs.offline,
        update_lock=inputs.update_lock,
        engine=engine,
        hold_on_failure_sec=inputs.hold_on_failure_sec,
        storages={name: _absolute(path) for name, path in inputs.storages.items()},
    )


def read(run: Run, info: RunInfo) -> RunRecord:
    """The record of a run. InputError: it is damaged, or an older kedge wrote none."""
    if not info.folder:
        raise InputError(
            f"{run.id} cannot be run again: kedge {info.version} recorded too little of it; "
            f"start from its job file (kedge show {run.id} --yaml)"
        )
    if run.code.is_symlink():
        raise InputError(f"{run.code}: it is not the run's copy of the code any more, but a link")
    file = os.path.join(info.folder, STDIN if info.source == STDIN else os.path.basename(info.source))
    return RunRecord(
        run=run.id,
        text=decode(run.job_bytes(), str(run.job_file)),
        file=file,
        lock=_lock(run),
        documents=str(run.inputs / DOCUMENTS),
        code=str(run.code),
        rules=_rules(run),
    )


def _lock(run: Run) -> lock_file.Lock:
    try:
        data = untrusted.read(run.path, f"{run.inputs.name}/{LOCK}", _LARGEST)
    except FileNotFoundError:
        return lock_file.EMPTY
    except OSError as error:
        raise InputError(f"{run.inputs / LOCK}: it cannot be read: {error.strerror}") from None
    return lock_file.parse(data, str(run.inputs / LOCK))


def _rules(run: Run) -> tuple[str, ...]:
    try:
        fd = untrusted.open_folder(run.path, run.inputs.name)
    except OSError:
        return ()
    try:
        names = {int(found[1]): name for name in os.listdir(fd) if (found := _RULES.fullmatch(name))}
    finally:
        os.close(fd)
    return tuple(str(run.inputs / names[number]) for number in sorted(names))


def _read(path: str) -> bytes:
    try:
        return user_files.read(Path(path), _LARGEST)
    except OSError as error:
        raise InputError(f"{path}: it cannot be read: {error.strerror}") from None


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))
