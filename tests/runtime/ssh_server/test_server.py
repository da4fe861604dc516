"""The ssh server of tasks, with OpenSSH's client."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pty
import signal
import socket
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kedge import processes
from kedge.contract import JOB_SSH_KEY
from kedge.jobs import ssh_keys
from kedge.runtime.ssh import image_sshd
from kedge.testing.wait import wait_until

from .conftest import HOST, OPENSSH, SshServer, free_port, stop

pytestmark = pytest.mark.skipif(not all(OPENSSH), reason="needs OpenSSH's client: apt-get install openssh-client")
Start = Callable[..., SshServer]


def exists(pid: str) -> bool:
    return processes.identify(int(pid)) is not None


@pytest.mark.parametrize("name", ["task_role-0", "taskrole-0"])
def test_a_command_runs_by_both_names_of_the_task(server: SshServer, name: str) -> None:
    done = server.ssh(name, "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_a_command_has_the_environment_and_the_folder_of_the_task(server: SshServer) -> None:
    assert server.output("printf '%s|' \"$FROM_TASK\"; pwd") == f"a 'quoted' value|{server.work}"
    assert server.output("echo $SSH_CONNECTION").split()[2:] == ["127.0.0.1", str(server.port)]


def test_a_program_that_a_signal_ends_is_no_success(server: SshServer) -> None:
    assert server.ssh(HOST, "kill -TERM $$").returncode == 255  # what OpenSSH's client makes of a signal


def test_a_shell_reads_commands(server: SshServer) -> None:
    assert server.ssh("-T", HOST, input=b"echo one\nexit 3\n").stdout == b"one\n"


def test_input_and_output_of_any_size_arrive(server: SshServer) -> None:
    data = os.urandom(1 << 20) * 20
    done = server.ssh(HOST, "cat; echo end >&2", input=data)
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()
    assert done.stderr == b"end\n"


def test_a_program_that_does_not_read_does_not_block_its_end(server: SshServer) -> None:
    assert server.ssh(HOST, "exit 5", input=bytes(8 << 20)).returncode == 5


def test_output_that_nobody_reads_makes_the_program_wait(server: SshServer) -> None:
    client = subprocess.Popen(server.argv(HOST, "yes & echo $! > slow; wait"), stdout=subprocess.PIPE)
    wait_until(lambda: (server.work / "slow").exists() and (server.work / "slow").read_text())
    status = Path(f"/proc/{server.process.pid}/status")
    before = int(status.read_text().split("VmRSS:")[1].split()[0])
    pid = (server.work / "slow").read_text().strip()
    wait_until(lambda: Path(f"/proc/{pid}/wchan").read_text() in ("pipe_write", "0", "anon_pipe_write"))
    assert int(status.read_text().split("VmRSS:")[1].split()[0]) < before + (64 << 10)  # KiB
    client.kill()
    client.communicate()
    wait_until(lambda: not exists(pid))


@contextmanager
def terminal(server: SshServer, *words: str, size: tuple[int, int]) -> Iterator[int]:
    """OpenSSH's client on a terminal of its own. Yields our end."""
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        os.execvpe("ssh", server.argv("-t", HOST, *words), {**os.environ, "TERM": "vt220"})
    try:
        yield fd
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(fd)


def read_until(fd: int, text: bytes, seen: bytes = b"") -> bytes:
    while text not in seen:
        try:
            seen += os.read(fd, 1 << 16)
        except OSError:
            break
    assert text in seen, seen
    return seen


def test_a_terminal_has_its_type_and_size_and_follows_changes(server: SshServer) -> None:
    command = 'stty size; echo $TERM $SSH_TTY; trap "stty size; exit" WINCH; echo wait; while :; do sleep 0.05; done'
    with terminal(server, command, size=(33, 99)) as fd:
        seen = read_until(fd, b"wait")
        assert b"33 99" in seen
        assert b"vt220 /dev/pts/" in seen
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 44, 111, 0, 0))
        read_until(fd, b"44 111")


def test_ctrl_c_and_end_of_file_work_on_a_terminal(server: SshServer) -> None:
    with terminal(server, "trap 'echo got it' INT; echo ready; cat; echo then", size=(24, 80)) as fd:
        read_until(fd, b"ready")  # until then the client's own terminal repeats what is typed
        os.write(fd, b"line\n")
        read_until(fd, b"line\r\nline")
        os.write(fd, b"\x03")
        read_until(fd, b"got it")
    with terminal(server, "echo ready; cat; echo over", size=(24, 80)) as fd:
        read_until(fd, b"ready")
        os.write(fd, b"x\n")
        read_until(fd, b"x\r\nx")
        os.write(fd, b"\x04")
        read_until(fd, b"over")


def test_without_a_terminal_end_of_input_reaches_a_terminal_over_there(server: SshServer) -> None:
    assert b"before" in server.ssh("-tt", HOST, "cat; echo after", input=b"before\n").stdout


@pytest.mark.parametrize("options", [(), ("-O",)], ids=["sftp", "old protocol"])
def test_files_are_copied_both_ways(server: SshServer, options: tuple[str, ...], tmp_path: Path) -> None:
    data = os.urandom(3 << 20)
    (tmp_path / "there").write_bytes(data)
    sent = server.ssh(*options, "-p", str(tmp_path / "there"), f"{HOST}:sent{len(options)}", program="scp")
    assert sent.returncode == 0, sent.stderr.decode()
    assert (server.work / f"sent{len(options)}").read_bytes() == data
    (tmp_path / "tree/below").mkdir(parents=True)
    (tmp_path / "tree/below/file").write_text("deep")
    server.ssh(*options, "-r", str(tmp_path / "tree"), f"{HOST}:tree{len(options)}", program="scp")
    back = server.ssh(*options, "-r", f"{HOST}:tree{len(options)}", str(tmp_path / "back"), program="scp")
    assert back.returncode == 0, back.stderr.decode()
    assert (tmp_path / "back/below/file").read_text() == "deep"


def test_an_scp_that_the_user_starts_there_is_a_command(server: SshServer) -> None:
    (server.work / "from-here").write_text("content")
    config = server.config
    assert server.output(f"scp -F {config} from-here {HOST}:copied-on") == ""
    assert (server.work / "copied-on").read_text() == "content"


def test_sftp_lists_and_makes_folders(server: SshServer) -> None:
    done = server.ssh("-b", "-", HOST, program="sftp", input=b"mkdir made\ncd made\npwd\n")
    assert done.returncode == 0, done.stderr.decode()
    assert f"{server.work}/made" in done.stdout.decode()


@contextmanager
def echo_service() -> Iterator[int]:
    """A server that returns what it gets in capitals. Yields its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(connection.recv(100).upper())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


@pytest.mark.parametrize("option", ["-L", "-R"])
def test_ports_are_forwarded(server: SshServer, option: str) -> None:
    with echo_service() as served:
        port = free_port()
        words = ("-N", "-o", "ExitOnForwardFailure=yes", option, f"127.0.0.1:{port}:127.0.0.1:{served}", HOST)
        client = subprocess.Popen(server.argv(*words))
        try:
            wait_until(lambda: _answer(port) == b"HELLO")
        finally:
            client.kill()  # it loses a SIGTERM that comes just before it waits
            client.wait()


def _answer(port: int) -> bytes:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=600) as connection:
        connection.sendall(b"hello")
        return connection.recv(100)
    return b""


def test_agents_are_not_forwarded(server: SshServer) -> None:
    with subprocess.Popen(["ssh-agent", "-D"], stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout
        path = agent.stdout.readline().split("=")[1].split(";")[0]
        wait_until(lambda: Path(path).exists())
        done = server.ssh("-A", HOST, "echo ${SSH_AUTH_SOCK-none}", env={**os.environ, "SSH_AUTH_SOCK": path})
        agent.terminate()
    assert done.stdout == b"none\n"


def test_any_user_name_is_the_task_s_user(server: SshServer) -> None:
    assert server.ssh("-l", "somebody", HOST, "id -u").stdout.decode() == f"{os.geteuid()}\n"


def _with_key(server: SshServer, key: Path) -> tuple[str, ...]:
    known = f"UserKnownHostsFile={server.config.parent}/known_hosts"
    return ("-F", "none", "-i", str(key), "-o", "IdentitiesOnly=yes", "-o", known, "-o", "HostKeyAlias=kedge-job",
            "-o", "BatchMode=yes", "-p", str(server.port), "127.0.0.1", "true")  # fmt: skip


def write_key(path: Path) -> Path:
    path.write_text(ssh_keys.made()[JOB_SSH_KEY])
    path.chmod(0o600)
    return path


def test_other_keys_and_passwords_are_refused(own_server: Start, tmp_path: Path) -> None:
    server = own_server()
    done = subprocess.run(
        ["ssh", *_with_key(server, write_key(tmp_path / "other"))], capture_output=True, text=True, check=False
    )
    assert done.returncode == 255
    assert "Permission denied (publickey)." in done.stderr
    assert "[ssh] refused a client from 127.0.0.1" in stop(server)


def test_a_server_with_another_host_key_is_refused(server: SshServer, own_server: Start) -> None:
    other = own_server()
    server_known = (server.config.parent / "known_hosts").read_text()
    (other.config.parent / "known_hosts").write_text(server_known)
    done = other.ssh("-o", "BatchMode=yes", HOST, "true")
    assert done.returncode == 255
    assert b"Host key verification failed" in done.stderr


def test_keys_of_users_log_in_without_a_key_of_the_job(own_server: Start, tmp_path: Path) -> None:
    key = write_key(tmp_path / "user")
    public = ssh_keys.public_line(key.read_text())
    server = own_server(jobssh=False, key="", keys=["ssh-rsa AAAAbroken", f"{public} me@home"])
    assert subprocess.run(["ssh", *_with_key(server, key)], check=False).returncode == 0
    assert not (server.config.parent / "id").exists()
    assert "a public key is left out" in "".join(server.log)


def test_a_pod_of_openpai_without_a_host_key_and_with_read_only_secrets(own_server: Start, tmp_path: Path) -> None:
    key = write_key(tmp_path / "user")
    secrets = tmp_path / "0/pai/secrets"
    secrets.mkdir(parents=True)
    (secrets / "uid").write_text("no folder can be made here")
    server = own_server(jobssh=False, key="", hostKey=None, keys=[ssh_keys.public_line(key.read_text())])
    assert subprocess.run(["ssh", *_with_key(server, key)], check=False).returncode == 0
    assert (server.config.parent / "host_key").stat().st_mode & 0o777 == 0o600


def test_one_connection_serves_many_sessions(server: SshServer, tmp_path: Path) -> None:
    control = f"ControlPath={tmp_path}/c"
    master = subprocess.Popen(server.argv("-M", "-N", "-o", control, HOST))
    try:
        wait_until(lambda: (tmp_path / "c").exists())
        found = {server.ssh("-o", control, HOST, f"echo $SSH_CLIENT; exit {n}").stdout for n in range(3)}
        assert len(found) == 1, "sessions of one connection have one port"
    finally:
        master.kill()
        master.wait()


def test_a_hundred_clients_at_once(server: SshServer) -> None:
    clients = [
        subprocess.Popen(server.argv(HOST, f"cat; echo {n}"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for n in range(100)
    ]
    answers = [client.communicate(b"x", timeout=600)[0] for client in clients]
    assert answers == [b"x%d\n" % n for n in range(100)]


@pytest.mark.parametrize("words", [(), ("-tt",)], ids=["pipes", "terminal"])
def test_what_a_lost_client_has_started_ends(server: SshServer, words: tuple[str, ...]) -> None:
    file = server.work / f"lost{len(words)}"
    client = subprocess.Popen(server.argv(*words, HOST, f"echo $$ > {file}; sleep 1000 | cat"), stdin=subprocess.PIPE)
    pid = wait_until(lambda: file.exists() and file.read_text().strip())
    client.kill()
    client.communicate()
    wait_until(lambda: not exists(pid))


def test_nonsense_does_not_harm_the_server(server: SshServer) -> None:
    for data in (b"GET / HTTP/1.0\r\n\r\n", b"SSH-2.0-x\r\n" + bytes(10_000), os.urandom(40_000), b""):
        with suppress(OSError), socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(data)
    assert server.output("echo alive") == "alive"


def test_the_end_of_the_server_ends_its_sessions(own_server: Start) -> None:
    server = own_server()
    client = subprocess.Popen(server.argv(HOST, "echo $$ > pid; sleep 1000"), stdin=subprocess.PIPE)
    pid = wait_until(lambda: (server.work / "pid").exists() and (server.work / "pid").read_text().strip())
    stop(server)
    assert server.process.returncode == 0
    wait_until(lambda: not exists(pid))
    assert client.wait(600) == 255
    client.communicate()


def test_private_files_are_private(server: SshServer) -> None:
    folder = server.config.parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
    assert (folder / "id").resolve() == server.folder / "pai/secrets/uid/ssh-id"


@pytest.mark.skipif(not image_sshd.find(), reason="needs OpenSSH's server: apt-get install openssh-server")
def test_the_image_s_own_sshd_serves_if_the_job_asks_for_it(own_server: Start) -> None:
    server = own_server(imageSshd=True, environment={"FROM_TASK": "a value", "ODD": 'a "quoted" one'})
    assert "start ssh service" in "".join(server.log)
    assert server.output("echo $FROM_TASK") == "a value"
    assert server.ssh(str(server.config), f"{HOST}:{server.work}/copied", program="scp").returncode == 0
    assert "OpenSSH" in server.ssh("-v", HOST, "true").stderr.decode().split("remote software version")[1][:20]
    stop(server)
    assert server.ssh(HOST, "true").returncode == 255
