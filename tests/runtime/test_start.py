"""Reasons why a command cannot be started, each with its own report; and the conditions in which it is started."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import stat
import subprocess
import sys

import pytest

from kedge import contract


def start_failure(attempt):
    """The report's message and user exit code, after checking the rest."""
    report = attempt.report
    assert (report["reason"], report["exit_code"]) == (contract.CANNOT_START, 255)
    assert f"[ERROR] {report['message']}" in attempt.log
    assert attempt.stream("user-all") == b""
    return report["message"], report["user_exit_code"]


@pytest.fixture
def bin_folder(tmp_path):
    """A PATH of one folder; the returned function puts programs into it."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def add(**programs):
        for name, target in programs.items():
            os.symlink(shutil.which(target), folder / name)
        return {"PATH": str(folder)}

    return add


def test_a_missing_shell(attempt, bin_folder):
    attempt.spec = attempt.spec._replace(environment=bin_folder())
    assert attempt.run("true") == 255
    message, code = start_failure(attempt)
    assert "neither bash nor sh" in message
    assert code == 127


def test_sh_is_used_where_bash_is_missing(attempt, bin_folder):
    attempt.spec = attempt.spec._replace(environment=bin_folder(sh="dash"))
    assert attempt.run("false | echo from sh") == 0
    assert attempt.stream("user-stdout") == b"from sh\n"
    script = (attempt.folder / "pai/runtime.d/user.sh").read_text()
    has_pipefail = subprocess.run(["dash", "-c", "set -o pipefail"], stderr=subprocess.DEVNULL).returncode == 0
    assert ("set -o pipefail" in script) == has_pipefail
    assert any("has no pipefail" in line for line in attempt.log) != has_pipefail


def test_pipefail_is_set_in_an_sh_that_supports_it(attempt, bin_folder):
    attempt.spec = attempt.spec._replace(environment=bin_folder(sh="bash"))
    assert attempt.run("false | echo on") == 255
    assert not any("pipefail" in line for line in attempt.log)


def test_a_missing_working_directory(attempt):
    attempt.spec = attempt.spec._replace(workdir=str(attempt.folder / "nowhere"))
    attempt.run("true")
    message, code = start_failure(attempt)
    assert "nowhere cannot be entered: No such file" in message
    assert code is None


def test_a_working_directory_that_is_a_file(attempt):
    attempt.spec = attempt.spec._replace(workdir=str(attempt.folder / contract.SPEC_FILE))
    attempt.run("true")
    assert "Not a directory" in start_failure(attempt)[0]


def test_an_interpreter_without_its_loader(attempt, tmp_path):
    shell = tmp_path / "bash"
    shell.write_text("#!/nowhere/interpreter\n")
    shell.chmod(0o755)
    attempt.spec = attempt.spec._replace(environment={"PATH": str(tmp_path)})
    attempt.run("true")
    message, code = start_failure(attempt)
    assert "loader it needs is missing" in message
    assert code == 127


def test_an_environment_that_the_kernel_refuses(attempt):
    attempt.spec = attempt.spec._replace(environment={"LARGE": "x" * 200_000})
    attempt.run("true")
    message, code = start_failure(attempt)
    assert "too large for the kernel" in message
    assert code == 126


def test_a_nul_byte_in_the_environment(attempt):
    attempt.spec = attempt.spec._replace(environment={"NUL": "a\0b"})
    attempt.run("true")
    assert "Invalid argument" in start_failure(attempt)[0]


def test_exit_hooks_run_for_a_command_that_cannot_start(attempt, step):
    hook = "rmdir ../gone; touch ../hook-ran"
    (attempt.folder / "gone").mkdir(parents=True)
    attempt.spec = attempt.spec._replace(
        workdir=str(attempt.folder / "gone"), steps=(step("item", taskStarts=hook, containerExit="true"),)
    )
    attempt.run("true")
    assert "cannot be entered" in start_failure(attempt)[0]
    assert any("a hook of item did not start" in line for line in attempt.log)


def test_stdin_is_empty_and_the_command_has_its_own_process_group(attempt):
    attempt.run("cat; ps -o pgid= -p $$ | tr -d ' '; echo $$", stdin=subprocess.PIPE)
    attempt.process.stdin.close()
    group, pid = attempt.stream("user-stdout").split()
    assert group == pid


def test_signals_have_their_default_actions(attempt):
    attempt.run("grep -E 'Sig(Blk|Ign)' /proc/self/status")
    masks = attempt.stream("user-stdout").split()
    glibcs_own = 0b11 << 31  # 32 and 33; its posix_spawn, by which Python 3.13 starts processes, leaves them ignored
    assert [int(mask, 16) & ~glibcs_own for mask in masks[1::2]] == [0, 0]


def test_the_working_directory_and_the_scripts(attempt):
    attempt.run("pwd")
    assert attempt.stream("user-stdout").decode() == f"{attempt.folder}/work\n"
    script = attempt.folder / "pai/runtime.d/user.sh"
    assert script.read_text() == "set -o errexit -o nounset -o pipefail\npwd\n"
    assert stat.S_IMODE(script.stat().st_mode) == 0o700
    assert (attempt.folder / "pai/logs" / attempt.spec.uid).resolve() == attempt.folder


def test_descriptors_of_the_supervisor_are_not_inherited(attempt):
    reader, writer = os.pipe2(os.O_NONBLOCK)
    lock, _ = os.pipe()
    options = ("--status", str(writer), "--keep", f"{lock}")
    attempt.run("ls -l /proc/self/fd | grep -c pipe", *options, pass_fds=[writer, lock])
    for fd in (reader, writer, lock, _):
        os.close(fd)
    assert attempt.stream("user-stdout") == b"2\n"  # stdout of ls is grep's pipe, stderr ours


def test_ports_are_held_until_the_command_starts(attempt, step):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        fd, port = held.fileno(), held.getsockname()[1]
        bind = f"{sys.executable} -c \"import socket; socket.socket().bind(('127.0.0.1', {port}))\""
        attempt.spec = attempt.spec._replace(steps=(step("hook", taskStarts=f"! {bind} 2>/dev/null; echo held"),))
        attempt.start(f"while ! {bind} 2>/dev/null; do sleep 0.01; done; echo free", "--hold", str(fd), pass_fds=[fd])
    assert attempt.wait() == 0
    assert "held" in attempt.log
    assert attempt.stream("user-stdout") == b"free\n"


def test_the_limit_of_open_files_is_set_for_the_command(attempt):
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    attempt.run("ulimit -Sn; ulimit -Hn", "--open-files", str(soft - 1))
    assert attempt.stream("user-stdout").split()[0] == str(soft - 1).encode()


def test_standard_descriptors_may_be_closed(attempt):
    attempt.start("echo out; echo err >&2", prefix=("bash", "-c", 'exec "$@" <&- >&- 2>&-', "-"))
    assert attempt.wait() == 0
    assert attempt.stream("user-stdout") == b"out\n"
    assert attempt.stream("user-stderr") == b"err\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "usage:"),
        (("--status",), "usage:"),
        (("--status", "x"), "not a list of numbers"),
        (("--status", "999"), "descriptor 999 is not open"),
        (("--what", "1"), "unknown option --what 1"),
    ],
)
def test_a_wrong_command_line(attempt, capfd, arguments, message):
    if arguments:
        status = attempt.run("true", *arguments)
    else:
        attempt.start("true")
        attempt.wait()
        status = subprocess.run([*attempt.process.args[:4]]).returncode
    assert status == 1
    assert message in capfd.readouterr().err


@pytest.mark.parametrize("text", ["", "[1]", '{"user": 1}', None])
def test_a_wrong_specification(attempt, capfd, text):
    attempt.start("true")
    attempt.wait()
    file = attempt.folder / contract.SPEC_FILE
    file.unlink() if text is None else file.write_text(text)
    assert subprocess.run(attempt.process.args).returncode == 1
    error = capfd.readouterr().err
    assert error.startswith(f"kedge runtime: {file}")
    assert "Traceback" not in error


def test_a_run_folder_that_cannot_be_made(attempt, capfd):
    attempt.spec = attempt.spec._replace(folder="/proc/nowhere", workdir="/")
    assert attempt.run("true") == 1
    error = capfd.readouterr().err
    assert "/proc/nowhere" in error
    assert "Traceback" not in error
