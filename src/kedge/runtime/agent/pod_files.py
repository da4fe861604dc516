"""What the agent writes for the supervisor in the other container of its pod, which may run as any user. `root` stands
before all paths; it is empty in a pod."""

from __future__ import annotations

import os

from kedge.contract import CODE_DIR
from kedge.light import json
from kedge.light.types import Any, Mapping
from kedge.link import pod_folders
from kedge.own_files import replace_file
from kedge.runtime.agent import task_files
from kedge.runtime.agent.node_folders import NodeFolders
from kedge.runtime.agent.task_files import AttemptFiles

_READABLE, _OPEN = 0o644, 0o777  # nobody else sees the volumes of a pod


def paths(root: str) -> AttemptFiles:
    """The paths of the pod's only task attempt."""
    names = (pod_folders.SHARED, pod_folders.SPEC, pod_folders.PEERS, pod_folders.STATUS, pod_folders.CONTROL)
    return AttemptFiles(*(root + path for path in names))


def folders(root: str) -> NodeFolders:
    """The agent's own folders."""
    return NodeFolders(root + pod_folders.AGENT_FOLDER, root + pod_folders.SECRETS, [])


def on_pod(start: Mapping[str, Any], root: str) -> Mapping[str, Any]:
    """A START with the paths that the task's container has. Without code the task starts in the working directory of
    its image. What it prints is also for the cluster's own logs. KeyError or TypeError if a part of it is missing."""
    spec = start["spec"]
    code = _code(spec)
    changes = {
        "folder": f"{root}{pod_folders.LOGS}/{os.path.basename(spec['uid'])}",
        "workdir": f"{root}{pod_folders.SCRIPTS}/{code}" if code else "",
        "code": root + pod_folders.SNAPSHOT if spec["code"] else None,
        "pai_dir": root + pod_folders.PAI,
        "output_dir": root + pod_folders.OUTPUT,
        "job_dir": root + pod_folders.JOB_FOLDER,
        "peers_file": root + pod_folders.PEERS,
        "rules": [_shared(root, path) for path in spec["rules"]],
        "exit_spec": _shared(root, spec["exit_spec"]) if spec["exit_spec"] else None,
        "logs": {**spec["logs"], "console": True},
    }
    return {**start, "spec": {**spec, **changes}}


def write(start: Mapping[str, Any], root: str) -> None:
    """Write everything that a START with these paths describes; the supervisor begins once the spec is there, which is
    the last. OSError; KeyError or TypeError if a part of it is missing."""
    spec = start["spec"]
    os.makedirs(spec["folder"], exist_ok=True)
    os.chmod(spec["folder"], _OPEN)
    task_files.write_json(root + pod_folders.PEERS, start["peers"], _READABLE)
    for name, value in start.get("files", {}).items():
        task_files.write_json(_shared(root, name), value, _READABLE)
    secrets = task_files.write_secrets(folders(root), start["secrets"], _READABLE)
    whole = json.dumps({**spec, "secrets_dir": secrets}).encode()
    replace_file(root + pod_folders.SPEC, whole, _READABLE, synced=False)


def _shared(root: str, path: str) -> str:
    return f"{root}{pod_folders.SHARED}/{os.path.basename(path)}"


def _code(spec: Mapping[str, Any]) -> str:
    """The folder in the code that the task starts in, if it has code: it is there, or in the copy, below a folder with
    this name."""
    before, _, code = str(spec["workdir"]).rpartition(f"/{CODE_DIR}/")
    return code if before else ""
