"""What the agent writes for the supervisor of one task attempt, in its own folders on the node."""

from __future__ import annotations

import os

from kedge.contract import JOB_DIR, SECRET_DOCUMENT, SECRET_VALUES, SPEC_FILE
from kedge.light import json
from kedge.light.types import Any, Mapping, NamedTuple
from kedge.own_files import clear, open_own, write_all
from kedge.runtime.agent.node_folders import NodeFolders


class AttemptFiles(NamedTuple):
    """The paths of one task attempt: the TaskSpec, the addresses of all tasks, the FIFO for the supervisor's events and
    the one for requests to it."""

    folder: str
    spec: str
    peers: str
    status: str
    control: str


def paths(folders: NodeFolders, task_attempt: int) -> AttemptFiles:
    """The paths of a task attempt."""
    folder = f"{folders.files}/{task_attempt}"
    return AttemptFiles(folder, *(f"{folder}/{name}" for name in (SPEC_FILE, "peers.json", "status", "control")))


def write(folders: NodeFolders, files: AttemptFiles, start: Mapping[str, Any]) -> None:
    """Write everything for the task attempt that a START describes, and make its folder where the controller has not.
    OSError; KeyError or TypeError if a part of it is missing."""
    clear(files.folder)
    os.mkdir(files.folder, 0o700)
    os.mkfifo(files.status, 0o600)
    os.mkfifo(files.control, 0o600)
    write_json(files.peers, start["peers"])
    for name, value in start.get("files", {}).items():  # they are JSON
        write_json(f"{files.folder}/{os.path.basename(name)}", value)
    secrets = write_secrets(folders, start["secrets"])
    write_json(files.spec, {**start["spec"], "peers_file": files.peers, "secrets_dir": secrets})
    os.makedirs(start["spec"]["folder"], exist_ok=True)


def clear_ended(folder: str) -> None:
    """Remove the folder on this node of a task attempt that has ended, and of which the controller has all. OSError."""
    if folder:
        clear(folder)


def on_node(folders: NodeFolders, start: Mapping[str, Any]) -> Mapping[str, Any]:
    """A START for a node that does not share the run folder: the task works in a folder of the node, and the files
    that diagnosis needs are the ones that have come with the START. The folder of the job is there for the task's own
    attempts only. KeyError or TypeError if a part of it is missing."""
    spec, number = start["spec"], start["task_attempt"]
    there, here = spec["folder"], f"{folders.files}/task-{number}"
    workdir, inputs = spec["workdir"], paths(folders, number).folder
    changes = {
        "folder": here,
        "workdir": here + workdir[len(there) :] if workdir.startswith(f"{there}/") else workdir,
        "job_dir": f"{folders.files}/{JOB_DIR}",
        "rules": [f"{inputs}/{os.path.basename(path)}" for path in spec["rules"]],
        "exit_spec": f"{inputs}/{os.path.basename(spec['exit_spec'])}" if spec["exit_spec"] else None,
    }
    return {**start, "spec": {**spec, **changes}}


def write_secrets(folders: NodeFolders, secrets: Mapping[str, Any] | None, mode: int = 0o600) -> str | None:
    """Write the files with the values of secrets, and return their folder; None if there are none."""
    remove_secrets(folders)
    if not secrets:
        return None
    write_json(f"{folders.secrets}/{SECRET_VALUES}", secrets["texts"], mode)
    write_json(f"{folders.secrets}/{SECRET_DOCUMENT}", secrets["document"], mode)  # the document is YAML, as JSON is
    return folders.secrets


def remove_secrets(folders: NodeFolders) -> None:
    """Remove the values of secrets, and the scripts with them that a supervisor has written; the folder stays, locked.
    OSError."""
    failed: OSError | None = None
    for name in os.listdir(folders.secrets):
        try:
            clear(f"{folders.secrets}/{name}")
        except OSError as error:  # in a pod, what the supervisor has written may be another user's
            failed = error
    if failed:
        raise failed


def write_json(path: str, value: Any, mode: int = 0o600) -> None:
    """Write a file. OSError."""
    fd = open_own(path, os.O_WRONLY | os.O_TRUNC, mode)
    try:
        write_all(fd, json.dumps(value).encode())
    finally:
        os.close(fd)
