from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kedge.claims import ports
from kedge.claims.locks import Claims, of_others
from kedge.engines.machine import gpus
from kedge.errors import CannotRun

NOWHERE = Path("/proc/no-claims-here")
STRANGER = 54321  # no user of this machine
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be several users")

# Another user's process: it locks bytes of its own file and then prints a line.
CLAIM = (
    "import fcntl, os, struct, sys; from pathlib import Path; from kedge.claims.locks import Claims\n"
    "os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))\n"
    "claims = Claims(Path(sys.argv[2]))\n"
    "lock = struct.pack('hhqqi', fcntl.F_WRLCK, os.SEEK_SET, int(sys.argv[3]), int(sys.argv[4]), 0)\n"
    "fcntl.fcntl(claims.fd, fcntl.F_OFD_SETLK, lock); print('claimed', flush=True); sys.stdin.read()\n"
)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder like /tmp, which every user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="kedge-test-", dir="/tmp"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@contextmanager
def stranger(folder: Path, first: int, count: int) -> Iterator[None]:
    """Another user, who claims `count` resources from `first` on."""
    command = [sys.executable, "-c", CLAIM, str(STRANGER), folder, str(first), str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        assert other.stdout.readline() == "claimed\n"
        yield
        other.communicate()


def test_a_claim_lasts_until_the_last_task_has_ended(tmp_path: Path) -> None:
    first, second = Claims(tmp_path), Claims(tmp_path)
    assert first.take(15000)
    assert not second.take(15000)
    assert second.take(15001)
    assert first.fd is not None
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[first.fd]) as supervisor:
        first.close()  # the controller is gone, but the task still runs
        assert not second.take(15000)
        supervisor.communicate()
    assert second.take(15000)
    second.close()


def test_only_its_user_can_open_the_file(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        claims = Claims(tmp_path)
    finally:
        os.umask(before)
    (file,) = tmp_path.iterdir()
    assert claims.fd is not None
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not os.get_inheritable(claims.fd)
    claims.close()


def test_without_a_file_everything_can_be_claimed() -> None:
    claims = Claims(NOWHERE)
    assert claims.fd is None
    assert claims.take(15000)
    claims.give_back(15000)
    claims.close()


def test_a_foreign_entry_in_place_of_the_file_is_left_alone(tmp_path: Path) -> None:
    name = f"kedge-claims-{os.geteuid()}"
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / f"{name}.1")
    (tmp_path / f"{name}.2").mkdir()
    first, second = Claims(tmp_path), Claims(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
    assert first.take(15000)
    assert not second.take(15000)  # both use the same file
    first.close()
    second.close()


@as_root
def test_a_file_of_another_user_under_our_name_is_not_used(shared: Path) -> None:
    planted = shared / f"kedge-claims-{os.geteuid()}"
    planted.touch(0o666)
    os.chown(planted, STRANGER, STRANGER)
    first, second = Claims(shared), Claims(shared)
    assert first.take(15000)
    assert not second.take(15000)
    with planted.open("r+b") as file:  # locking all of it has no effect
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0))
        assert first.take(15001)
    first.close()
    second.close()


@as_root
def test_claims_of_others_are_listed_with_their_user(shared: Path) -> None:
    with stranger(shared, 20000, 3):
        (claim,) = of_others(shared)
    assert (claim.user, claim.numbers) == (STRANGER, range(20000, 20003))
    assert of_others(shared) == []


def test_own_claims_are_not_listed_as_those_of_others(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    assert claims.take(20000)
    assert of_others(tmp_path) == []
    claims.close()


@as_root
def test_a_user_who_claims_all_ports_blocks_nobody(shared: Path) -> None:
    with stranger(shared, 0, 1 << 40):
        held = ports.reserve(3, Claims(shared), shared)
    numbers = {each.getsockname()[1] for each in held}
    for each in held:
        each.close()
    assert len(numbers) == 3


@as_root
def test_ports_that_another_user_claims_come_last(shared: Path) -> None:
    pool = ports.pools()[0]
    free = pool[-5]
    with socket.socket() as probe:
        probe.bind(("", free))
    with stranger(shared, 0, free), stranger(shared, free + 1, 65536):
        (held,) = ports.reserve(1, Claims(shared), shared)
    with held:
        assert held.getsockname()[1] == free


@as_root
def test_gpus_that_another_user_claims_are_not_used_and_the_error_names_the_user(shared: Path) -> None:
    devices = [gpus.Device(0, "GPU-a"), gpus.Device(1, "GPU-b")]
    with stranger(shared, gpus.claim_number(devices[0]), 1):
        taken = gpus.take(1, devices, shared)
        assert [gpu.device for gpu in taken] == [devices[1]]
        os.close(taken[0].claim_fd)
        with pytest.raises(
            CannotRun, match=r"there are 2 and 1 of them are taken by other jobs \(including jobs of user 54321\)"
        ):
            gpus.take(2, devices, shared)
    for gpu in gpus.take(2, devices, shared):
        os.close(gpu.claim_fd)


def test_without_a_file_no_gpu_can_be_claimed() -> None:
    with pytest.raises(CannotRun, match="cannot be used to claim GPUs: no file can be made in it"):
        gpus.take(1, [gpus.Device(0, "GPU-a")], NOWHERE)
