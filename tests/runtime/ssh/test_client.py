"""The runtime's `ssh` against OpenSSH's server."""

from __future__ import annotations

import hashlib
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys

import pytest
from tests.runtime.ssh.conftest import TIMEOUT

from kedge.testing.wait import wait_until


def test_a_command_has_its_output_and_its_exit_code(server):
    done = server.run("worker_a-0", "echo", "to  stdout;", "echo to stderr >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "to stdout\n", "to stderr\n")


def test_options_that_launchers_pass_are_understood(server):
    launcher = ("-2", "-a", "-x", "-q", "-T", "-oBatchMode=yes", "-o", "ControlMaster no", "-4")
    done = server.run(*launcher, "workera-2", "-n", "-C", "echo", "-n", "here")
    assert (done.returncode, done.stdout) == (0, "here")


def test_a_command_that_a_signal_ends_is_255(server):
    assert server.run("worker_a-0", "kill -KILL $$").returncode == 255


def test_options_of_the_command_line_come_before_the_file(server):
    done = server.run("-p", server.closed, "worker_a-0", "true")
    assert done.returncode == 255
    assert done.stderr == f"ssh: connect to host 127.0.0.1 port {server.closed}: Connection refused\n"
    assert server.run("-p", server.port, "down-0", "echo up").stdout == "up\n"


def test_variables_are_sent(server):
    variables = {**os.environ, "GREETING": "a b"}
    assert server.run("-o", "SendEnv=GREETING", "worker_a-0", 'echo "$GREETING"', env=variables).stdout == "a b\n"


def test_an_unknown_task_is_refused_with_the_known_ones(server):
    done = server.run("worker-9", "true")
    assert done.returncode == 255
    assert done.stderr.startswith(
        "ssh: worker-9 has no address and is no task of this job; its tasks are worker_a-0, worker_a-1,"
    )


def test_a_host_with_another_key_is_refused(server):
    (server.folder / "known_hosts").write_text("")
    done = server.run("worker_a-0", "echo reached")
    assert (done.returncode, done.stdout) == (255, "")
    assert done.stderr.endswith("Host key verification failed.\n")
    assert server.run("-o", "StrictHostKeyChecking=no", "worker_a-0", "echo reached").stdout == "reached\n"


def test_a_key_that_is_not_authorized_is_refused(server):
    (server.folder / "authorized_keys").write_text("")
    done = server.run("worker_a-0", "true")
    assert done.returncode == 255
    assert "@127.0.0.1: Permission denied (publickey" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-o", "NoSuchThing=1", "worker_a-0"), "Bad or unsupported configuration option: nosuchthing"),
        (("-o", "Port=many", "worker_a-0"), "command-line: line 1: Invalid Port integer value: many"),
        (("-Z", "worker_a-0"), "unknown option -- Z"),
        (("-p", "99999", "worker_a-0"), "Bad port '99999'"),
        (("-L", "80", "worker_a-0"), "Bad local forwarding specification '80'"),
        (("-w", "0", "worker_a-0"), "tunnel devices are not supported"),
        ((), "usage: ssh "),
    ],
)
def test_a_wrong_command_line_is_explained(prepared, words, message):
    done = prepared.run(*words)
    assert done.returncode == 255
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_streams_arrive_whole_in_both_directions(server, tmp_path):
    data = os.urandom(20 << 20)
    (tmp_path / "data").write_bytes(data)
    with (tmp_path / "data").open("rb") as given:
        done = subprocess.run(server.argv("worker_a-0", "cat"), stdin=given, capture_output=True, timeout=TIMEOUT)
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()


def test_input_goes_on_while_nobody_reads_the_output(server):
    """As rsync and git need it: both directions at once, each with its own pace."""
    with subprocess.Popen(server.argv("worker_a-0", "cat"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(bytes(1 << 20))  # more than the pipes and less than the windows hold
        process.stdin.close()
        assert len(process.stdout.read()) == 1 << 20


def test_a_closed_reader_ends_the_client(server):
    with subprocess.Popen(server.argv("worker_a-0", "yes"), stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"y\n"
        process.stdout.close()
        assert process.wait(TIMEOUT) == 255


WAITS_FOR_WINDOW = "echo up; until [ \"$(stty size)\" = '33 99' ]; do sleep 0.05; done; echo reached; read line; exit 3"


def test_a_terminal_is_given_and_follows_the_window(server):
    assert server.run("-tt", "worker_a-0", "test -t 0 && test -t 1; echo $?").stdout == "0\n"
    assert server.run("worker_a-0", "test -t 0; echo $?").stdout == "1\n"
    main, side = pty.openpty()
    argv = server.argv("-t", "worker_a-0", WAITS_FOR_WINDOW)
    with subprocess.Popen(argv, stdin=side, stdout=side, stderr=side, start_new_session=True) as process:
        os.close(side)
        text = b""
        while b"\n" not in text:
            text += os.read(main, 100)
        subprocess.run(
            [
                sys.executable,
                "-c",
                "import fcntl,struct,termios,sys; fcntl.ioctl(int(sys.argv[1]), "
                "termios.TIOCSWINSZ, struct.pack('HHHH', 33, 99, 0, 0))",
                str(main),
            ],
            pass_fds=[main],
            check=True,
        )
        process.send_signal(signal.SIGWINCH)
        while b"reached" not in text:
            text += os.read(main, 100)
        os.write(main, b"\r")
        assert process.wait(TIMEOUT) == 3
    os.close(main)


def test_ports_are_forwarded_both_ways(server):
    with socket.create_server(("127.0.0.1", 0)) as echo, socket.create_server(("127.0.0.1", 0)) as free:
        there, here = echo.getsockname()[1], free.getsockname()[1]
        free.close()
        process = subprocess.Popen(server.argv("-N", "-L", f"{here}:localhost:{there}", "worker_a-0"))
        try:
            client = wait_until(lambda: _connect(here), TIMEOUT)
            accepted, _ = echo.accept()
            client.sendall(b"hello")
            assert accepted.recv(100) == b"hello"
            client.close()
            accepted.close()
        finally:
            process.terminate()
            assert process.wait(TIMEOUT) == 255
        done = server.run("-W", f"127.0.0.1:{server.port}", "worker_a-0", input="")
        assert done.stdout.startswith("SSH-2.0-OpenSSH")


def _connect(port):
    try:
        return socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
    except ConnectionRefusedError:
        return None


def test_git_and_rsync_work_through_it(server, tmp_path):
    script = tmp_path / "ssh"
    script.write_text("#!/bin/sh\nexec " + " ".join(server.argv()) + ' "$@"\n')
    script.chmod(0o755)
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    for words in (("init", "-q"), (*identity, "commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run(["git", *words], cwd=_made(tmp_path / "repository"), check=True)
    clone = ["git", "clone", "-q", f"worker_a-0:{tmp_path}/repository", str(tmp_path / "clone")]
    subprocess.run(clone, env={**os.environ, "GIT_SSH": str(script)}, check=True, timeout=TIMEOUT)
    assert (tmp_path / "clone" / ".git").is_dir()
    if shutil.which("rsync"):
        (_made(tmp_path / "from") / "file").write_text("text")
        rsync = ["rsync", "-a", "-e", str(script), f"{tmp_path}/from/", f"worker_a-1:{tmp_path}/to"]
        subprocess.run(rsync, check=True, timeout=TIMEOUT)
        assert (tmp_path / "to" / "file").read_text() == "text"


def _made(folder):
    folder.mkdir(exist_ok=True)
    return folder


def test_in_the_background_it_returns_once_connected(server, tmp_path):
    mark = tmp_path / "mark"
    done = subprocess.run(server.argv("-f", "worker_a-0", f"touch {mark}"), timeout=TIMEOUT)
    assert done.returncode == 0
    wait_until(mark.exists, TIMEOUT)
    assert server.run("-f", "down-0", "true").returncode == 255
