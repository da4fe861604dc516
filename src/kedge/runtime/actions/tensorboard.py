"""The service `tensorboard`: TensorBoard beside the first task of a job. The task never waits for it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from kedge.contract import PAI_HOME
from kedge.runtime.actions.base import ActionFailed, ActionJob

_NAME = "tensorboard"
_PYTHONS = ("python3", "python")
_VERSION = re.compile(r"^(\d+)\.\d", re.MULTILINE)
_VERSION_SEC = 120.0  # it imports TensorFlow if there is one
_START_SEC = 600.0
_LOOK_SEC = 0.1


def run(parameters: dict[str, Any], job: ActionJob) -> None:
    """Run TensorBoard until the task ends; nothing in other tasks than the first. ActionFailed."""
    variables = os.environ
    role, index = variables.get("PAI_CURRENT_TASK_ROLE_NAME", ""), variables.get("PAI_TASK_INDEX", "")
    if role != variables.get("PAI_TASK_ROLE_LIST", "").split(",")[0] or index != "0":
        return
    job.ready()  # the command starts now, whatever happens here
    folders = {str(name): os.path.expandvars(str(path)) for name, path in parameters["logdir"].items()}
    host = variables.get(f"PAI_HOST_IP_{role}_{index}", "127.0.0.1")
    ports = variables.get(f"PAI_PORT_LIST_{role}_{index}_{_NAME}", "")
    port = choose_port(int(parameters["port"]), ports, own_network=host != "127.0.0.1")
    program = _program(job)
    argv = [program, *arguments(_major(program), folders, port, loopback=host == "127.0.0.1")]
    job.log(" ".join(argv))
    _watch(argv, host, port, job)


def choose_port(wanted: int, reserved: str, *, own_network: bool) -> int:
    """The wanted port in a network of the task's own, if it is free there, else the first that the engine has
    `reserved` (its list, separated by commas)."""
    numbers = [int(number) for number in reserved.split(",") if number.isdigit()]
    if not numbers or (own_network and _is_free(wanted)):
        return wanted
    return numbers[0]


def arguments(major: int | None, folders: Mapping[str, str], port: int, *, loopback: bool) -> list[str]:
    """The arguments for TensorBoard 1 and 2. ActionFailed for other versions."""
    named = ",".join(f"{name}:{path}" for name, path in folders.items())
    local = ["--host=127.0.0.1"] if loopback else []
    if major == 1:
        return [f"--logdir={named}", f"--port={port}", *local]
    if major == 2:
        place = f"--logdir_spec={named}" if len(folders) > 1 else f"--logdir={next(iter(folders.values()))}"
        return [place, f"--port={port}", *(local or ["--bind_all"])]
    raise ActionFailed(f"TensorBoard {major or 'of an unknown version'} is not supported; install version 1 or 2")


def _is_free(port: int) -> bool:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("", port))
        except OSError:
            return False
    return True


def _program(job: ActionJob) -> str:
    """The path of TensorBoard, installed by pip if the image has none. ActionFailed. Outside of containers pip would
    change the user's own Python."""
    if found := shutil.which(_NAME):
        return found
    if job.pai != PAI_HOME:
        raise ActionFailed("TensorBoard is not on the PATH; install it yourself: pip install tensorboard")
    python = next(filter(None, map(shutil.which, _PYTHONS)), None)
    if python is None:
        raise ActionFailed("TensorBoard is not in the image, and neither is Python, which could install it")
    job.log("TensorBoard is not in the image; pip installs it")
    done = subprocess.run([python, "-m", "pip", "install", _NAME], stdin=subprocess.DEVNULL, check=False)
    if done.returncode or not (found := shutil.which(_NAME)):
        raise ActionFailed("TensorBoard is not in the image, and pip cannot install it; add it to the image")
    return found


def _major(program: str) -> int | None:
    """The major version; None if it is not known."""
    try:
        done = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=_VERSION_SEC, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ActionFailed(f"{program} cannot be asked for its version: {error}") from error
    versions = _VERSION.findall(done.stdout.decode(errors="replace"))
    return int(versions[-1]) if versions else None


def _watch(argv: list[str], host: str, port: int, job: ActionJob) -> None:
    """Run the program until it ends, and report its address once it listens. ActionFailed if it fails."""
    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    try:
        give_up = time.monotonic() + _START_SEC
        while child.poll() is None and time.monotonic() < give_up:
            if _listens(host, port):
                job.ready(f"http://{host}:{port}/")
                break
            time.sleep(_LOOK_SEC)
        code = child.wait()
    finally:
        child.terminate()
    raise ActionFailed(f"TensorBoard ended with exit code {code}")


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), 1.0).close()
    except OSError:
        return False
    return True
