"""The files of a plugin, as the script that writes them at the start of its task."""

from __future__ import annotations

import hashlib
import shlex
import string
from collections.abc import Iterable

from kedge.contract import TASK_STARTS, Callback, SecretRef, Text, show_text
from kedge.plugins.base import File

_FIRST = "~^%@+=:,._" + string.ascii_letters


def written_by(files: Iterable[File]) -> tuple[Callback, ...]:
    """The callback that writes the files, or none. Contents are taken as they are: nothing in them means anything to
    the shell."""
    parts = [part for file in files for part in _write(file)]
    return (Callback(TASK_STARTS, tuple(parts)),) if parts else ()


def _write(file: File) -> Iterable[str | SecretRef]:
    path = shlex.quote(file.path if file.path.startswith("/") else f"./{file.path}")
    end = _end(show_text(file.content))
    mode = "u=rwx" if file.executable else "u=rw"
    yield f"mkdir -p \"$(dirname {path})\" && (umask 077; cat > {path}; chmod {mode},go= {path}) << '{end}'\n"
    yield from file.content
    yield f"{'' if _ends_line(file.content) else chr(10)}{end}\n"


def _end(content: str) -> str:
    """A line that ends the text and that cannot stand in it: not in what is known here, and no secret can foresee it.

    No known line begins as it does: dash 0.5.12 drops a byte of one that does and goes on with a non-ASCII character.
    """
    begun = {line[:1] for line in content.split("\n")}
    first = next(c for c in _FIRST if c not in begun or c == _FIRST[-1])
    return f"{first}END-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def _ends_line(content: Text) -> bool:
    last = next((part for part in reversed(content) if part != ""), "\n")
    return isinstance(last, str) and last.endswith("\n")
