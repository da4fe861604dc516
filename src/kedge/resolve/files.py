"""The files of a plugin, as the script that writes them at the start of its task."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable

from kedge.contract import TASK_STARTS, Callback, SecretRef, Text, show_text
from kedge.plugins.base import File


def written_by(files: Iterable[File]) -> tuple[Callback, ...]:
    """The callback that writes the files, or none. Contents are taken as they are: nothing in them means anything to
    the shell."""
    parts = [part for file in files for part in _write(file)]
    return (Callback(TASK_STARTS, tuple(parts)),) if parts else ()


def _write(file: File) -> Iterable[str | SecretRef]:
    path = shlex.quote(file.path if file.path.startswith("/") else f"./{file.path}")
    # A line that ends the text and that cannot stand in it: not in what is known here, and no secret can foresee it.
    end = f"END-{hashlib.sha256(show_text(file.content).encode()).hexdigest()[:16]}"
    mode = "u=rwx" if file.executable else "u=rw"
    yield f"mkdir -p \"$(dirname {path})\" && (umask 077; cat > {path}; chmod {mode},go= {path}) << '{end}'\n"
    yield from file.content
    yield f"{'' if _ends_line(file.content) else chr(10)}{end}\n"


def _ends_line(content: Text) -> bool:
    last = next((part for part in reversed(content) if part != ""), "\n")
    return isinstance(last, str) and last.endswith("\n")
