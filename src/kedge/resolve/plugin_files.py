"""The shell script that writes a plugin's files at the start of a task."""

from __future__ import annotations

import hashlib
import shlex
import string
from collections.abc import Iterable

from kedge.contract import TASK_STARTS, Callback, SecretRef, Text, show_text
from kedge.plugins.base import File

_FIRST = "~^%@+=:,._" + string.ascii_letters


def written_by(files: Iterable[File]) -> tuple[Callback, ...]:
    """The callback that writes the files; empty if there are none. The shell does not interpret their contents."""
    parts = [part for file in files for part in _write(file)]
    return (Callback(TASK_STARTS, tuple(parts)),) if parts else ()


def _write(file: File) -> Iterable[str | SecretRef]:
    path = shlex.quote(file.path if file.path.startswith("/") else f"./{file.path}")
    end = _delimiter(show_text(file.content))
    mode = "u=rwx" if file.executable else "u=rw"
    yield f"mkdir -p \"$(dirname {path})\" && (umask 077; cat > {path}; chmod {mode},go= {path}) << '{end}'\n"
    yield from file.content
    yield f"{'' if _ends_line(file.content) else chr(10)}{end}\n"


def _delimiter(content: str) -> str:
    """A here-document delimiter that does not occur in the content. Secrets are not known here, but cannot predict it.

    No known line starts with the delimiter's first character: dash 0.5.12 drops a byte of a line that does and goes on
    with a non-ASCII character.
    """
    starts = {line[:1] for line in content.split("\n")}
    first = next(c for c in _FIRST if c not in starts or c == _FIRST[-1])
    return f"{first}END-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def _ends_line(content: Text) -> bool:
    last = next((part for part in reversed(content) if part != ""), "\n")
    return isinstance(last, str) and last.endswith("\n")
