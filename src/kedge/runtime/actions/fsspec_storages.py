"""Fetching from storages that need fsspec (s3://, gs://, az://, hf:// and others), with the image's own python3."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess

from kedge.runtime.actions.addresses import plain, shown
from kedge.runtime.actions.base import ActionFailed
from kedge.runtime.files import read_file

_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fsspec_program.py")
_PACKAGES = {
    "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "abfss": "adlfs",
    "hf": "huggingface_hub", "oss": "ossfs", "sftp": "paramiko", "ssh": "paramiko", "hdfs": "pyarrow",
}  # fmt: skip
_KEPT = 1 << 16  # bytes, from the end of the program's output
_CAUSES = {"missing": "data_file_missing", "denied": "remote_access_denied", "wrong": "bad_config"}


def fetch(uri: str, path: str) -> None:
    """Try once. ActionFailed explains a failure, and what to install if that is the reason."""
    scheme = uri.partition("://")[0]
    python = shutil.which("python3")
    if python is None:
        raise _missing_package(uri, scheme, "there is no python3 in the task's image")
    # Passed as text, not as a file, so that python3 does not search the runtime's folder for modules.
    argv = [python, "-c", read_file(_PROGRAM).decode()]
    request = json.dumps({"uri": uri, "path": path}).encode()
    code, output = _run(argv, request)
    if code == 0:
        return
    failure = _failure(output) or {"kind": "other", "message": f"{python} exited with code {code}"}
    if failure["kind"] == "module":
        raise _missing_package(uri, scheme, failure["message"])
    cause = _CAUSES.get(failure["kind"], "network_transient")
    raise ActionFailed(f"{shown(uri)}: {failure['message']}", cause, transient=cause == "network_transient")


def _run(argv: list[str], request: bytes) -> tuple[int, bytes]:
    """The exit code and the end of the output. The amount of output is not limited, so only the end is kept."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(request)
            process.stdin.close()
        output = b""
        while piece := process.stdout.read1(_KEPT):  # type: ignore[attr-defined]
            output = (output + piece)[-_KEPT:]
    return process.returncode, output


def _failure(output: bytes) -> dict[str, str] | None:
    """The failure that the last line describes. None if that line is something else."""
    try:
        failure = json.loads(output.splitlines()[-1])
        return {"kind": str(failure["kind"]), "message": plain(str(failure["message"]))}
    except (ValueError, IndexError, TypeError, KeyError, RecursionError):
        return None


def _missing_package(uri: str, scheme: str, why: str) -> ActionFailed:
    packages = " ".join(dict.fromkeys(("fsspec", _PACKAGES.get(scheme, "fsspec"))))
    return ActionFailed(
        f"{shown(uri)} is fetched with fsspec by the python3 of the task's image, but: {why}. Install it first, for "
        f"example with a prerequisite that runs 'pip install {packages}'",
        "missing_module",
    )
