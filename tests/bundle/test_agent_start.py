"""What one task on a cluster asks of the file system with the bundle: a thousand ask it at once."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.agent.conftest import AgentUnderTest

from kedge.bundle import build, layers

OPEN, FOLDER = 0x20, 0x40000000  # inotify(7)
HEAD = 16  # bytes before the name in an event
MOST_OPENED = 34  # by a task that fails; an interpreter for its supervisor would open a dozen more


class Opened:
    """The files that are opened in a folder."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for path in [path for path, _, _ in os.walk(folder)]:
            assert libc.inotify_add_watch(self._fd, os.fsencode(path), OPEN) > 0, os.strerror(ctypes.get_errno())

    def names(self) -> Iterator[str]:
        """Their names so far."""
        try:
            while data := os.read(self._fd, 1 << 16):
                while data:
                    end = HEAD + int.from_bytes(data[HEAD - 4 : HEAD], "little")
                    if not int.from_bytes(data[4:8], "little") & FOLDER:
                        yield data[HEAD:end].rstrip(b"\0").decode()
                    data = data[end:]
        except BlockingIOError:
            os.close(self._fd)


@pytest.fixture
def bundled(tmp_path: Path) -> Iterator[AgentUnderTest]:
    """An agent that starts from a bundle of its own."""
    bundle = build.ensure(layers.choose(["driver"]))
    shutil.copytree(bundle.path, tmp_path / "bundle", copy_function=os.link)
    agent = AgentUnderTest(tmp_path)
    agent.argv = (str(tmp_path / "bundle" / "agent"),)
    yield agent
    agent.close()


def test_a_task_opens_few_files_of_the_bundle(bundled: AgentUnderTest) -> None:
    opened = Opened(bundled.folder / "bundle")
    bundled.start()
    bundled.run("false")
    assert bundled.ended()["report"]["diagnosis"], "with what a diagnosis loads"
    assert bundled.finish() == 0
    names = [*opened.names()]
    assert "runtime.pyc" in names
    assert len(names) <= MOST_OPENED, names


def test_a_supervisor_loads_from_its_own_file(bundled: AgentUnderTest) -> None:
    bundled.start()
    bundled.run("touch ready; sleep 1000")
    bundled.wait_for_file("ready")
    process = Path(f"/proc/{bundled.supervisor_pid()}")
    paths = {os.path.basename(os.readlink(fd)) for fd in (process / "fd").iterdir()}
    assert "runtime.pyc" in paths
    assert "agent.pyc" not in paths
    start = bundled.folder / "bundle" / "site" / "kedge" / "runtime.pyc"
    assert f"\0{start}\0".encode() in (process / "cmdline").read_bytes(), "as if it had been started by itself"
    assert bundled.finish() == 0
