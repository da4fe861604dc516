"""The contents of a bundle, reproducible builds, and building only once."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import kedge
from kedge.bundle import build, busybox, layers, manifest, stubs
from kedge.bundle.build import Bundle
from kedge.errors import CannotRun, InputError

BUILD = "from kedge.bundle import build; print(build.ensure({layers!r}).path)"
KILLED = "import os, sys; sys.addaudithook(lambda event, _: event == {event!r} and os.kill(os.getpid(), 9)); "
MB = 1_000_000


def builder(cache: Path, *names: str, killed: str = "", **environment: str) -> subprocess.Popen[str]:
    """A process that builds a bundle; it is killed at the audit event `killed` of Python."""
    program = KILLED.format(event=killed) + BUILD.format(layers=names or ("core",))
    variables = os.environ | {"XDG_CACHE_HOME": str(cache)} | environment
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=variables)


def path_from(process: subprocess.Popen[str]) -> Path:
    said, _ = process.communicate()
    assert process.returncode == 0
    return Path(said.strip())


def test_the_manifest_lists_every_file(bundle: Bundle) -> None:
    there = {str(path.relative_to(bundle.path)) for path in bundle.path.rglob("*") if not path.is_dir()}
    entries = manifest.entries(bundle.path)
    assert {entry.path for entry in entries} == there - {manifest.NAME}
    for entry in entries:
        data = (bundle.path / entry.path).read_bytes()
        assert (entry.sha256, entry.size) == (hashlib.sha256(data).hexdigest(), len(data))
        assert entry.layer in ("core", "net")
        assert entry.origin
        assert entry.licence


def test_any_user_can_use_it(bundle: Bundle) -> None:
    for path in (bundle.path, *bundle.path.rglob("*")):
        mode = path.stat().st_mode & 0o777
        assert mode in ((0o755,) if path.is_dir() else (0o644, 0o755)), path


def test_the_supervisor_is_small(bundle: Bundle) -> None:
    sizes = {name: sum(e.size for e in manifest.entries(bundle.path) if e.layer == name) for name in ("core", "net")}
    assert sizes["core"] < 25 * MB
    assert sizes["net"] < 15 * MB


def test_modules_for_the_net_layer_are_not_in_the_core(bundle: Bundle) -> None:
    core = {Path(entry.path).name.partition(".")[0] for entry in manifest.entries(bundle.path) if entry.layer == "core"}
    assert not core & {
        "_ssl",
        "ssl",
        "libcrypto",
        "libssl",
        "http",
        "email",
        "cacert",
        "download",
        "http_download",
        "argparse",
    }


def test_tasks_need_nothing_of_the_layers_of_the_jobs_side() -> None:
    """Pods have a bundle of all layers, and their tasks get it without those two (prepare_pod)."""
    whole, alone = build.ensure(layers.available()), build.ensure(("core", "net", "ssh"))
    of_tasks = {entry.path for entry in manifest.entries(whole.path) if entry.layer not in ("init", "driver")}
    assert {entry.path for entry in manifest.entries(alone.path)} <= of_tasks


def test_all_libraries_come_from_the_bundle(bundle: Bundle) -> None:
    loader = bundle.path / "lib" / bundle.head["loader"]
    interpreter = bundle.path / "bin" / bundle.head["interpreter"]
    programs = [interpreter, *(path for path in bundle.path.rglob("*") if ".so" in path.name)]
    assert len(programs) > 20  # Debian's Python has more of its modules built in than others
    for program in programs:
        if program == loader:
            continue
        done = subprocess.run(
            [loader, "--inhibit-cache", "--library-path", bundle.path / "lib", "--list", program],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        paths = [word for word in done.stdout.split() if word.startswith("/")]
        assert "not found" not in done.stdout
        assert [
            path for path in paths if not path.startswith(str(bundle.path)) and Path(path).name != loader.name
        ] == []


def test_the_same_input_gives_the_same_bundle(bundle: Bundle, tmp_path: Path) -> None:
    """Built by another process, in another place, with other settings."""
    other = builder(tmp_path, "core", "net", PYTHONHASHSEED="77", LANG="C", PYTHONOPTIMIZE="2", TZ="Asia/Tokyo")
    path = path_from(other)
    assert path != bundle.path
    assert build.opened(path).digest == bundle.digest


def test_it_is_built_once(tmp_path: Path) -> None:
    paths = {path_from(process) for process in [builder(tmp_path) for _ in range(4)]}
    assert len(paths) == 1
    folder = next(iter(paths)).parent
    assert sorted(path.suffix for path in folder.iterdir()) == ["", ".lock", ".stamp"]


def test_a_killed_builder_leaves_no_bundle(tmp_path: Path) -> None:
    process = builder(tmp_path, killed="os.rename")  # which makes it count
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    folder = tmp_path / "kedge" / "bundles"
    assert list(folder.glob(".*/bin"))
    assert [path for path in folder.iterdir() if not path.name.startswith(".") and path.is_dir()] == []
    path = path_from(builder(tmp_path))
    assert build.opened(path).head["layers"] == ["core"]
    assert not list(folder.glob(".*"))


def test_where_the_build_is_started_does_not_matter(bundle: Bundle, tmp_path: Path) -> None:
    """`python -m` looks for modules in the working directory first, above the folder of installed packages, too."""
    program = "import sys; sys.path.insert(0, '/'); " + BUILD.format(layers=("core", "net"))
    variables = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=variables)
    assert build.opened(Path(said.stdout.strip())).digest == bundle.digest


def test_it_names_the_interpreter_and_this_version(bundle: Bundle) -> None:
    assert bundle.head["python"] == ".".join(map(str, sys.version_info[:3]))
    assert bundle.head["kedge"] == kedge.__version__
    assert bundle.machine == os.uname().machine


def test_its_python_works_as_a_program(bundle: Bundle, tmp_path: Path) -> None:
    """With an argument that contains a blank, and as the parent of another Python."""
    program = (
        "import subprocess, sys; print(sys.argv[1]);"
        "print(subprocess.run([sys.executable, '-c', 'print(1 + 1)'], capture_output=True, text=True).stdout)"
    )
    done = subprocess.run(
        [bundle.path / "bin" / "python3", "-c", program, "a b"], capture_output=True, text=True, check=True,
        env={"LD_PRELOAD": "", "PYTHONHOME": "", "PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.stdout == "a b\n2\n\n"


def test_byte_code_is_used_unchecked(bundle: Bundle) -> None:
    """Nothing is compiled again, and tracebacks show nothing of the machine that built it."""
    start = stubs.command(str(bundle.path), bundle.head["interpreter"], bundle.head["loader"])
    program = "import json; print(json.__file__, json.loads.__code__.co_filename)"
    done = subprocess.run([*start, "-c", program], capture_output=True, text=True, check=True)
    file, told = done.stdout.split()
    assert file.endswith("/json/__init__.pyc")
    assert told == file.removeprefix(f"{bundle.path}/").removesuffix("c")


def test_a_layer_that_cannot_be_built_names_the_missing_packages() -> None:
    if not layers.missing("ssh"):
        pytest.skip("asyncssh is installed")
    assert "ssh" not in layers.available()
    with pytest.raises(CannotRun, match="the layer ssh needs asyncssh: pip install asyncssh"):
        layers.choose(["ssh"])


def test_an_unknown_layer() -> None:
    with pytest.raises(InputError, match=r"there is no layer 'web'.*core, net, ssh, init, driver, shell"):
        layers.choose(["web"])


def test_layers_have_an_order_and_the_core_is_always_there() -> None:
    assert layers.choose(["init", "net"]) == ("core", "net", "init")
    assert layers.choose([]) == ("core",)


def test_the_shell_needs_a_static_busybox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one in PATH that is static; scripts and programs that need a C library are passed over."""
    for name, content in (("script", b"#!/bin/sh\n"), ("dynamic", Path("/bin/sh").resolve().read_bytes())):
        (tmp_path / name).mkdir()
        (tmp_path / name / "busybox").write_bytes(content)
    monkeypatch.setattr(busybox, "_USUAL", ())
    monkeypatch.setenv("PATH", f"{tmp_path}/script:{tmp_path}/dynamic")
    assert "shell" not in layers.available()
    with pytest.raises(CannotRun, match=r"^the layer shell needs busybox-static: apt-get install busybox-static$"):
        layers.choose(["shell"])
