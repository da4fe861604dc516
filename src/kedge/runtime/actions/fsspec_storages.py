"""Fetching from storages that only fsspec knows (s3://, gs://, az://, hf:// and others), by the image's own python3."""

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
_KEPT = 1 << 16  # bytes of what the program prints
_CAUSES = {"missing": "data_file_missing", "denied": "remote_access_denied", "wrong": "bad_config"}


def fetch(uri: str, path: str) -> None:
    """One try. ActionFailed says why not, and what to install."""
    scheme = uri.partition("://")[0]
    python = shutil.which("python3")
    if python is None:
        raise _lacks(uri, scheme, "there is no python3 in the task's image")
    # As text, not as a file: the runtime's folder must not become a place where python3 looks for modules.
    argv = [python, "-c", read_file(_PROGRAM).decode()]
    wanted = json.dumps({"uri": uri, "path": path}).encode()
    code, said = _run(argv, wanted)
    if code == 0:
        return
    told = _told(said) or {"kind": "other", "message": f"{python} ended with {code}"}
    if told["kind"] == "module":
        raise _lacks(uri, scheme, told["message"])
    cause = _CAUSES.get(told["kind"], "network_transient")
    raise ActionFailed(f"{shown(uri)}: {told['message']}", cause, transient=cause == "network_transient")


def _run(argv: list[str], wanted: bytes) -> tuple[int, bytes]:
    """The exit code and the end of what was printed; the image's python3 may print whatever it likes."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(wanted)
            process.stdin.close()
        said = b""
        while piece := process.stdout.read1(_KEPT):  # type: ignore[attr-defined]
            said = (said + piece)[-_KEPT:]
    return process.returncode, said


def _told(said: bytes) -> dict[str, str] | None:
    """The answer in the last line; None if that is none."""
    try:
        told = json.loads(said.splitlines()[-1])
        return {"kind": str(told["kind"]), "message": plain(str(told["message"]))}
    except (ValueError, IndexError, TypeError, KeyError, RecursionError):
        return None


def _lacks(uri: str, scheme: str, why: str) -> ActionFailed:
    packages = " ".join(dict.fromkeys(("fsspec", _PACKAGES.get(scheme, "fsspec"))))
    return ActionFailed(
        f"{shown(uri)} is fetched by the python3 of the task's image, with fsspec; but: {why}. Install it before, for "
        f"example with a prerequisite that runs 'pip install {packages}'",
        "missing_module",
    )
