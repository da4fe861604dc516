"""Handing out a bundle: as a folder, a tar archive or an image, where the user wants it. Nothing else is ever
overwritten."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from kedge.bundle import manifest, oci, tar
from kedge.errors import CannotRun, InputError


def folder(bundle: Path, target: Path) -> None:
    """Copy the bundle to `target`, in place of another one."""
    _replace(target, manifest.NAME, lambda path: _copy(bundle, path))


def image(bundle: Path, target: Path, tag: str) -> None:
    """Write an OCI image layout to `target`, in place of another one."""
    _replace(target, "oci-layout", lambda path: oci.write(bundle, path, tag))


def archive(bundle: Path, target: Path) -> None:
    """Write a tar archive to `target`, in place of another one."""
    try:
        tar.write(bundle, target)
    except OSError as error:
        raise CannotRun(f"the bundle cannot be written to {target}: {error.strerror}") from error


def _replace(target: Path, mark: str, write: Callable[[Path], object]) -> None:
    """Write aside, and put it in place. InputError if there is something else than a folder with `mark` in it."""
    try:
        if target.exists() and not (target.is_dir() and ((target / mark).is_file() or not any(target.iterdir()))):
            raise InputError(f"{target} is there already and is no bundle; name a folder that is new or empty")
        partial = target.with_name(f".{target.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        write(partial)
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
    except OSError as error:
        raise CannotRun(f"the bundle cannot be written to {target}: {error.strerror or error}") from error


def _copy(bundle: Path, target: Path) -> None:
    shutil.copytree(bundle, target, dirs_exist_ok=True)
    target.chmod(0o755)
