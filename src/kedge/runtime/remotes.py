"""Fetching from storages that only fsspec knows (s3://, gs://, az://, hf:// and others), by the image's own python3."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

from kedge.runtime.failed import Failed
from kedge.runtime.files import read_file
from kedge.runtime.httpget import shown

_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fsspecget.py")
_PACKAGES = {
    "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "abfss": "adlfs",
    "hf": "huggingface_hub", "oss": "ossfs", "sftp": "paramiko", "ssh": "paramiko", "hdfs": "pyarrow",
}  # fmt: skip
_CAUSES = {"missing": "data_file_missing", "denied": "remote_access_denied", "wrong": "bad_config"}


def fetch(uri: str, path: str) -> None:
    """One try. Failed says why not, and what to install."""
    scheme = uri.partition("://")[0]
    python = shutil.which("python3")
    if python is None:
        raise _lacks(uri, scheme, "there is no python3 in the task's image")
    # As text, not as a file: the runtime's folder must not become a place where python3 looks for modules.
    argv = [python, "-c", read_file(_PROGRAM).decode()]
    wanted = json.dumps({"uri": uri, "path": path}).encode()
    done = subprocess.run(argv, input=wanted, stdout=subprocess.PIPE, check=False)
    if done.returncode == 0:
        return
    try:
        told = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        told = {"kind": "other", "message": f"{python} ended with {done.returncode}"}
    if told["kind"] == "module":
        raise _lacks(uri, scheme, told["message"])
    cause = _CAUSES.get(told["kind"], "network_transient")
    raise Failed(f"{shown(uri)}: {told['message']}", cause, transient=cause == "network_transient")


def _lacks(uri: str, scheme: str, why: str) -> Failed:
    packages = " ".join(dict.fromkeys(("fsspec", _PACKAGES.get(scheme, "fsspec"))))
    return Failed(
        f"{shown(uri)} is fetched by the python3 of the task's image, with fsspec; but: {why}. Install it before, for "
        f"example with a prerequisite that runs 'pip install {packages}'",
        "missing_module",
    )
