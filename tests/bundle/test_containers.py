"""The bundle in images that have nothing it needs, and in images that interfere with it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from kedge.bundle import build
from kedge.bundle.build import Bundle
from kedge.contract import (
    CONTAINER_EXIT,
    LOADER_VARIABLES,
    SHELVED,
    TASK_STARTS,
    Action,
    Callback,
    LogPolicy,
    Step,
)

from .conftest import IN_CONTAINERS, ROOT, TASK, Done, Run, podman, task_spec

pytestmark = IN_CONTAINERS

# A hook before and a hook after; the first hands a variable on, which a child Python sees.
HOOKS = Step("hooks", (Callback(TASK_STARTS, ("export HANDED='a b'",)), Callback(CONTAINER_EXIT, ("echo bye",))))
RUNTIME = f"{ROOT}/runtime"


def succeeded(done: Done) -> None:
    assert done.code == 0, done.said + done.log
    assert done.report["reason"] == "succeeded"
    assert "HANDED=a b" in done.output or "handed a b" in done.output
    assert done.log.endswith("bye\n")


@pytest.mark.parametrize("image", ["busybox", "debian", "bare", "musl"])
def test_it_runs_in_images_of_all_kinds(image: str, run: Run, request: pytest.FixtureRequest) -> None:
    succeeded(run(request.getfixturevalue(image), task_spec("env", HOOKS)))


def test_the_image_of_musl_has_no_other_loader(musl: str, run: Run) -> None:
    done = run(musl, task_spec("hello; ls /lib /lib64 2>&1 || :"))
    assert done.output.startswith("hello from musl\n")
    assert "ld-linux" not in done.output


def test_it_runs_in_an_image_with_another_c_library(other_libc: str, run: Run) -> None:
    """The bundle uses its own C library; the image's programs use theirs."""
    done = run(other_libc, task_spec("set -- /lib/*/libc.so.6; $1; echo handed $HANDED", HOOKS))
    succeeded(done)
    machines = subprocess.run(["ldd", "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    assert "stable release version" in done.output
    assert machines.rpartition(" ")[2] not in done.output.split("\n")[0]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--user", "12345:12345"), id="an ordinary user"),
        pytest.param(("--read-only", "--read-only-tmpfs=false"), id="a read-only root, no /tmp"),
        pytest.param(("--read-only", "--tmpfs", "/tmp:noexec,size=1m"), id="a read-only root, /tmp not for programs"),
        pytest.param(("--memory", "64m", "--memory-swap", "64m"), id="64 MB of memory"),
        pytest.param(("--cap-drop", "all", "--security-opt", "no-new-privileges", "--user", "1"), id="no privileges"),
    ],
)
def test_it_runs_under_restrictions(options: tuple[str, ...], bare: str, run: Run) -> None:
    succeeded(run(bare, task_spec("env", HOOKS), *options))


def test_a_read_only_root_causes_no_failure(busybox: str, run: Run) -> None:
    spec = task_spec("exit 1", logs=LogPolicy(console=True))
    done = run(busybox, spec, "--read-only", "--read-only-tmpfs=false")
    assert done.report["user_exit_code"] == 1
    assert "cannot be written" not in done.said + done.log
    assert "Read-only" not in done.said + done.log


@pytest.mark.parametrize("shell", [False, True], ids=["started directly", "started by its script"])
def test_the_environment_of_the_image_is_restored_and_does_not_interfere(
    shell: bool, busybox: str, bundle: Bundle, run: Run, tmp_path: Path
) -> None:
    """Variables that would break the start or change what is loaded reach hooks and command with the image's values."""
    broken = tmp_path / "task" / "broken"
    broken.mkdir(parents=True)
    for file in (bundle.path / "lib").glob("*.so*"):
        (broken / file.name).write_text("no library\n")
    library = f"{TASK}/broken"
    image = {
        "LD_PRELOAD": f"{library}/libc.so.6", "LD_AUDIT": f"{library}/libm.so.6", "LD_DEBUG": "all",
        "GLIBC_TUNABLES": "glibc.malloc.check=3", "LD_LIBRARY_PATH": library, "PYTHONHOME": library,
        "PYTHONPATH": library, "PYTHONSTARTUP": library, "LANG": "de_DE.ISO-8859-1", "PATH": "/bin",
        "EMPTY": "", "WITH_NEWLINE": "x",
    }  # fmt: skip
    given = dict(image)
    if not shell:  # as an engine does it
        for name in LOADER_VARIABLES:
            if name in image:
                given |= {name: "", f"{SHELVED}{name}": image[name]}
    options = [word for name, value in given.items() for word in ("--env", f"{name}={value}")]
    start = (RUNTIME, f"{TASK}/spec.json") if shell else None
    done = run(busybox, task_spec("env", HOOKS), *options, start=start)
    succeeded(done)
    seen = done.environment
    assert {name: seen.get(name) for name in image} == image
    assert not [name for name in seen if name.startswith(SHELVED)]


def test_the_command_sees_only_the_variables_of_the_image_and_the_protocol(busybox: str, run: Run) -> None:
    plain = run(busybox, task_spec("true"), start=("/bin/env",)).said
    images = {line.partition("=")[0] for line in plain.splitlines()}
    seen = set(run(busybox, task_spec("env", HOOKS)).environment)
    protocol = {name for name in seen if name.startswith(("PAI_", "KEDGE_"))}
    others = seen - images - protocol
    assert others == {"HANDED", "PYTHONUNBUFFERED", "RUNTIME_LOG_PIPE", "TORCHELASTIC_ERROR_FILE", "PWD", "SHLVL"}


def test_an_image_without_a_shell_is_reported(no_shell: str, run: Run) -> None:
    done = run(no_shell, task_spec("true"))
    assert done.code == 255
    assert done.report["reason"] == "cannot-start"
    assert "the image has no /bin/sh" in done.report["message"]
    assert "commands need a shell" in done.report["message"]


def test_a_failure_is_diagnosed(busybox: str, run: Run) -> None:
    """With patterns, which need a C++ library."""
    done = run(busybox, task_spec("echo 'ModuleNotFoundError: No module named '\\''numpy'\\''' >&2; exit 1"))
    assert done.report["diagnosis"]["cause"] == "missing_module"
    assert "[WARNING]" not in done.log


def test_actions_run_in_a_python_of_the_bundle(busybox: str, run: Run, tmp_path: Path) -> None:
    """An action unpacks an archive and checks a sum, although the image sets variables that would break that Python."""
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "data.txt").write_text("some data\n")
    subprocess.run(["tar", "-C", folder, "-czf", folder / "data.tar.gz", "data.txt"], check=True)
    action = Action("download", {"uri": f"file://{TASK}/data.tar.gz", "path": f"{TASK}/data"})
    step = Step("data", (Callback(TASK_STARTS, (), action),))
    done = run(busybox, task_spec(f"cat {TASK}/data/data.txt", step), "--env", "LD_PRELOAD=/nothing/there.so")
    assert (done.code, done.output) == (0, "some data\n"), done.said + done.log


def test_it_starts_from_any_folder(bundle: Bundle, tmp_path: Path, no_shell: str) -> None:
    """`sys.executable` is the script that starts it again."""
    place = "/somewhere/else with a blank"
    program = "import sys; print(sys.executable, sys.prefix, sys.flags.isolated)"
    start = build.command(bundle, place)[:-1]
    done = podman("run", "--rm", "--network=none", "-v", f"{bundle.path}:{place}:ro", no_shell, *start, "-c", program)
    assert done.stdout == f"{place}/bin/python3 {place} 1\n"
    assert os.access(bundle.path / "bin" / "python3", os.X_OK)


def test_an_action_that_a_small_bundle_does_not_have(no_net: Bundle, busybox: str, tmp_path: Path) -> None:
    step = Step("data", (Callback(TASK_STARTS, (), Action("download", {"uri": f"file://{TASK}/x", "path": "x"})),))
    (tmp_path / "spec.json").write_text(json.dumps(task_spec("true", step).to_json()))
    mounts = ("-v", f"{no_net.path}:{ROOT}:ro", "-v", f"{tmp_path}:{TASK}")
    podman("run", "--rm", "--network=none", *mounts, busybox, RUNTIME, f"{TASK}/spec.json", check=False)
    assert "its bundle needs the layer net" in (tmp_path / "report.json").read_text()
