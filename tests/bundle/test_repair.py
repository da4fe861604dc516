"""A bundle in the cache that has changed since it was built."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kedge.bundle import build, cache, manifest, repair
from kedge.bundle.build import Bundle

LAYERS = ("core", "net")


@pytest.fixture
def copy(bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy in the test's own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place = cache.path_of(LAYERS)
    shutil.copytree(bundle.path, place)
    place.chmod(0o755)
    assert build.to_do(LAYERS) is None
    return place


def _shorter(place: Path) -> None:
    os.truncate(place / "lib" / "libc.so.6", 100)


def _missing(place: Path) -> None:
    (place / "site" / "kedge" / "contract.pyc").unlink()


def _other(place: Path) -> None:
    """The same size, and the same times as before."""
    path = place / "runtime"
    before = path.stat()
    path.write_bytes(bytes(reversed(path.read_bytes())))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _mode(place: Path) -> None:
    (place / "bin" / "python3").chmod(0o644)


def _closed(place: Path) -> None:
    (place / "lib").chmod(0o700)


def _link(place: Path) -> None:
    path = place / "runtime"
    path.rename(place.parent / "elsewhere")
    path.symlink_to(place.parent / "elsewhere")


def _more(place: Path) -> None:
    (place / "site" / "json.py").write_text("raise SystemExit(3)")


def _no_manifest(place: Path) -> None:
    (place / manifest.NAME).unlink()


def _folder(place: Path) -> None:
    (place / "runtime").unlink()
    (place / "runtime" / "x").mkdir(parents=True)


HARM = [_shorter, _missing, _other, _mode, _closed, _link, _more, _no_manifest, _folder]


@pytest.mark.parametrize("harm", HARM, ids=lambda harm: harm.__name__)
def test_damage_is_noticed_and_repaired(
    copy: Path, bundle: Bundle, harm: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_use = os.open(copy, os.O_RDONLY)  # as a container has it mounted
    harm(copy)
    assert build.to_do(LAYERS) == build.REPAIRING
    # As it would be built anew, which takes long.
    monkeypatch.setattr(
        "kedge.bundle.assemble.assemble", lambda folder, _: shutil.copytree(bundle.path, folder, dirs_exist_ok=True)
    )
    with build.held(LAYERS):  # another job
        assert build.ensure(LAYERS).digest == bundle.digest
    assert build.to_do(LAYERS) is None
    assert repair._is_right(copy, set(repair._file_facts(copy) or ()))
    assert sorted(os.listdir(in_use)) == sorted(os.listdir(bundle.path))
    os.close(in_use)


def test_a_bundle_with_other_times_is_read_and_kept(copy: Path) -> None:
    inode = (copy / "runtime").stat().st_ino
    (copy / "runtime").touch()
    assert build.to_do(LAYERS) is None
    assert build.ensure(LAYERS).path == copy
    assert (copy / "runtime").stat().st_ino == inode


def test_a_bundle_that_does_not_start_is_read_as_a_whole(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk may return other bytes than were written without any other sign."""
    path = copy / "runtime"
    path.write_bytes(bytes(reversed(path.read_bytes())))
    repair.stamp(copy)
    assert build.to_do(LAYERS) is None
    build.distrust(build.opened(copy))
    assert build.to_do(LAYERS) == build.REPAIRING
