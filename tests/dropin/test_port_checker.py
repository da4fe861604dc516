"""The port checker, with real sockets of this and of other processes and users."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.test_lost import AS_NOBODY

from kedge.testing.wait import wait_until

SRC = Path(__file__).parents[2] / "src"
PROGRAM = f"import sys; sys.path.insert(0, {str(SRC)!r}); from kedge.dropin import programs; "
CHECK = f"{PROGRAM} sys.exit(programs.main('portChecker'))"
ALONE = ("unshare", "--pid", "--fork", "--mount-proc")
LISTEN = "import socket, sys; s = socket.create_server(('127.0.0.1', {})); print(flush=True); sys.stdin.read()"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def check(
    folder: Path, *arguments: str, before: tuple[str, ...] = (), environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the program with arguments; `before` are words before its command line."""
    command = [*before, sys.executable, "-I", "-S", "-c", CHECK, *arguments]
    variables = {"PATH": os.environ["PATH"]} | (environment or {})
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def check_ports(folder: Path, *ports: int, udp: bool = False, before: tuple[str, ...] = ()) -> tuple[int, str]:
    """The exit code, and the messages without their times."""
    (folder / "portListFile").write_text("".join(f"{port}\n" for port in ports))
    done = check(folder, *["--udp"] * udp, "portListFile", before=before)
    assert "Traceback" not in done.stderr
    return done.returncode, "\n".join(line.partition(" - ")[2] for line in done.stderr.splitlines())


def free_port(family: int = socket.AF_INET, address: str = "127.0.0.1") -> int:
    """A port that is free, below the range of outgoing connections, where it stays free."""
    for port in range(15000 + os.getpid() % 7000, 30000):
        with socket.socket(family) as test:
            try:
                test.bind((address, port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")


@pytest.fixture
def port() -> int:
    return free_port()


@contextlib.contextmanager
def listening(port: int, *before: str) -> Iterator[int]:
    """Another process that listens on a port. Yields its id."""
    command = [*before, sys.executable, "-I", "-S", "-c", LISTEN.format(port), "secret"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        try:
            assert process.stdout.readline() == "\n"
            yield process.pid
        finally:
            process.stdin.close()


def test_free_ports(port: int, tmp_path: Path) -> None:
    code, log = check_ports(tmp_path, port)
    assert (code, log.count("\n")) == (0, 0)
    assert log.endswith(f" - ports from portListFile: {port}")
    assert check_ports(tmp_path) == (0, log.replace(str(port), "none"))


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "127.0.0.9"])
def test_a_listener_is_named(address: str, port: int, tmp_path: Path) -> None:
    with socket.create_server((address, port)):
        code, log = check_ports(tmp_path, port)
    assert code == 10
    assert f" - Port {port} has conflict.\n" in log
    assert f"port {port} is in use for TCP on 0.0.0.0: by process {os.getpid()} (" in log


def test_a_listener_on_ipv6(tmp_path: Path) -> None:
    try:
        port = free_port(socket.AF_INET6, "::1")
    except AssertionError:
        pytest.skip("there is no IPv6 here")
    with socket.create_server(("::1", port), family=socket.AF_INET6):
        code, log = check_ports(tmp_path, port)
    assert code == 10
    assert f"port {port} is in use for TCP on ::: by process {os.getpid()} (" in log


def test_a_socket_that_does_not_listen_yet(port: int, tmp_path: Path) -> None:
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", port))
        code, log = check_ports(tmp_path, port)
    assert code == 10
    assert "by a socket that is bound and does not listen; its process cannot be known" in log


def test_an_outgoing_connection_is_a_conflict(port: int, tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname(), source_address=("127.0.0.1", port)),
    ):
        code, log = check_ports(tmp_path, port)
    assert code == 10
    assert f"by process {os.getpid()} (" in log


def test_a_connection_that_has_ended_is_none(port: int, tmp_path: Path) -> None:
    """A server can be started on such a port, as with the addresses that servers reuse."""
    with socket.create_server(("127.0.0.1", port)) as server:
        client = socket.create_connection(("127.0.0.1", port))
        accepted = server.accept()[0]
    accepted.close()  # the side that closes first keeps the port for a minute
    assert client.recv(1) == b""
    client.close()
    wait_until(lambda: f":{port:04X} " in waiting_connections(), 10)
    assert check_ports(tmp_path, port)[0] == 0


def waiting_connections() -> str:
    """The local addresses in TIME_WAIT."""
    lines = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines())
    return "".join(f"{fields[1]} " for fields in lines if fields[3] == "06")


def test_udp_is_a_warning_unless_it_counts(port: int, tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", port))
        code, log = check_ports(tmp_path, port)
        assert code == 0
        assert "WARNING - port_checker.py:" in log
        assert f"port {port} is in use for UDP on 0.0.0.0: by process {os.getpid()} (" in log
        assert "has conflict" not in log
        code, log = check_ports(tmp_path, port, udp=True)
        assert code == 10
        assert f"Port {port} has conflict." in log


def test_every_conflict_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = [each.getsockname()[1] for each in (one, other)]
        code, log = check_ports(tmp_path, *ports)
    assert code == 10
    assert [f"Port {port} has conflict." in log for port in ports] == [True, True]


def test_the_program_is_named_without_its_options(port: int, tmp_path: Path) -> None:
    with listening(port) as pid:
        code, log = check_ports(tmp_path, port)
    assert code == 10
    assert f"by process {pid} ({sys.executable}) of user " in log
    assert "secret" not in log


def test_ports_of_the_environment_file(port: int, tmp_path: Path) -> None:
    """As the init phase writes it, and without an argument."""
    (tmp_path / "runtime_env.sh").write_text(
        "export PAI_CONTAINER_HOST_PORT='8080'\n"
        f"export PAI_CONTAINER_HOST_PORT_LIST='tcp:{port},{port + 1};ssh:;http:{port};'\n"
    )
    environment = {"PAI_RUNTIME_DIR": str(tmp_path)}
    for arguments in ((), ("runtime_env.sh",)):
        done = check(tmp_path, *arguments, environment=environment)
        assert done.returncode == 10
        assert f": {port} (tcp), {port + 1} (tcp), {port} (http)\n" in done.stderr
        assert f"port {port} is listed twice, as tcp and as http\n" in done.stderr
    (tmp_path / "runtime_env.sh").write_text("export PAI_CONTAINER_IP='10.0.0.1'\n")
    assert check(tmp_path, environment=environment).returncode == 0


def test_a_port_that_is_listed_twice(port: int, tmp_path: Path) -> None:
    code, log = check_ports(tmp_path, port, port)
    assert code == 10
    assert f"Port {port} has conflict." in log
    assert f"port {port} is listed twice" in log


@pytest.mark.parametrize("number", [0, 65536, 10**12])
def test_a_number_that_is_no_port(number: int, tmp_path: Path) -> None:
    code, log = check_ports(tmp_path, number)
    assert code == 1
    assert f"portListFile: {number} is not a port: it must be a number from 1 to 65535" in log


def test_a_list_that_cannot_be_read(tmp_path: Path) -> None:
    done = check(tmp_path, "nothing")
    assert done.returncode == 1
    assert "the ports of this task cannot be read from nothing: No such file or directory" in done.stderr


@needs_root
def test_another_users_process(port: int, tmp_path: Path) -> None:
    """Root sees which process it is; others see only whose it is."""
    with listening(port, *AS_NOBODY) as pid:
        assert f"by process {pid} ({sys.executable}) of user nobody (65534)" in check_ports(tmp_path, port)[1]
    tmp_path.chmod(0o755)
    with listening(port):
        code, log = check_ports(tmp_path, port, before=AS_NOBODY)
    assert code == 10
    assert "by a process of user root (0); only this user and root can see which process it is" in log


@needs_root
def test_a_process_of_another_container(port: int, tmp_path: Path) -> None:
    """A pod on the host's network sees the host's sockets, and not its processes."""
    with listening(port):
        code, log = check_ports(tmp_path, port, before=ALONE)
    if "unshare" in log:
        pytest.skip("no namespace can be made here")
    assert code == 10
    assert "by a process of user root (0) that cannot be seen from here: it belongs to the host, or to another" in log


@needs_root
def test_a_port_that_may_not_be_bound(tmp_path: Path) -> None:
    limit = int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    if limit <= 1:
        pytest.skip("users may bind every port here")
    tmp_path.chmod(0o755)
    code, log = check_ports(tmp_path, 1, before=AS_NOBODY)
    assert code == 0
    assert "port 1 cannot be checked for TCP on 0.0.0.0: Permission denied" in log
