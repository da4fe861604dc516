"""Exporting a bundle as a folder, a tar archive or an image. Folders are replaced only if they hold such an export."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from kedge.bundle import manifest, oci, tar
from kedge.errors import CannotRun, InputError


def folder(bundle: Path, target: Path) -> None:
    """Copy the bundle to `target`, replacing another bundle."""
    _replace(target, manifest.NAME, lambda path: _copy(bundle, path))


def image(bundle: Path, target: Path, tag: str) -> None:
    """Write an OCI image layout to `target`, replacing another layout."""
    _replace(target, "oci-layout", lambda path: oci.write(bundle, path, tag))


def archive(bundle: Path, target: Path) -> None:
    """Write a tar archive to `target`, replacing an existing file."""
    try:
        tar.write(bundle, target)
    except OSError as error:
        raise CannotRun(f"the bundle cannot be written to {target}: {error.strerror}") from error


def _replace(target: Path, mark: str, write: Callable[[Path], object]) -> None:
    """Write to a temporary folder and move it to `target`. InputError if `target` exists, is not empty and is not a
    folder with the file `mark`."""
    try:
        if target.exists() and not (target.is_dir() and ((target / mark).is_file() or not any(target.iterdir()))):
            raise InputError(f"{target} exists and is not a bundle; choose a new or an empty folder")
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
