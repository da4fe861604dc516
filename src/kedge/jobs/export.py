"""Writes a run's job with everything that it refers to into a folder, from where it runs on any machine."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from kedge import untrusted
from kedge.errors import CannotRun, InputError
from kedge.jobs import record, rerun, stored_job
from kedge.jobs.stored_job import PartPlaces
from kedge.own_files import clear, replace_file
from kedge.resolve import lock_file
from kedge.resolve.document_cache import DocumentCache, digest
from kedge.resolve.document_store import is_url
from kedge.resolve.lock_file import Lock
from kedge.resolve.model import RunRecord
from kedge.runs import tree_copy
from kedge.runs.atomic_files import disk_errors
from kedge.runs.folder import Run, RunInfo, names_in
from kedge.runs.run_options import RunOptions
from kedge.spec.addresses import BY_ID, ITEM_TYPES
from kedge.spec.edit import edited
from kedge.spec.message_text import printable
from kedge.spec.model import Job
from kedge.spec.parse import load_text

JOB, LOCK, MARKET = "job.yaml", "job.lock", "marketplace"
_SCHEME = "marketplace://"
_LARGEST_RULES = 16 << 20  # bytes
_RIGHTS = 0o755  # of code: in a run of containers, everybody may write to it


class StoredRun(NamedTuple):
    """What is left of a run's job: its record, its job file, and its options."""

    run: Run
    info: RunInfo
    record: RunRecord
    job: Job
    options: RunOptions


def stored(run: Run) -> StoredRun:
    """Read the record of a run. InputError: it has none, or it is damaged."""
    info, options = rerun.facts(run)
    found = record.read(run, info)
    job, _ = load_text(found.text, found.file, {*options.parameters, *options.secrets})
    return StoredRun(run, info, found, job, options)


def text(of: StoredRun) -> str:
    """The job file with absolute paths, for this machine. Code and rules are those of the run folder."""
    folder = os.path.dirname(of.record.file)
    snapshots = stored_job.code_paths(of.job, of.options, folder, names_in(of.run.path, of.run.code.name))
    code = {name: os.path.join(of.record.code, name) for name in snapshots}
    files = {name: name for name in (stored_job.absolute(each, folder) for each in of.record.lock.files)}
    return stored_job.text(
        of.record, of.job, of.options, PartPlaces(code, of.record.rules, files, of.options.marketplace)
    )


def missing(of: StoredRun) -> tuple[str, ...]:
    """Notes about what the job file lacks, because it was not stored."""
    _, problems, notes = rerun.restored(of.job, (), of.options.parameters)
    lost = (f"{problem.where}: {problem.message}" for problem in problems)
    return (*lost, *notes)


def write(of: StoredRun, folder: str, command: Sequence[str]) -> tuple[str, ...]:
    """Write the job into a folder that is empty or does not exist yet: all of it, or nothing. `command` are the words
    of the engine for `kedge run`. Returns notes for the user. InputError, DiskFull."""
    target = Path(os.path.abspath(os.path.expanduser(folder)))
    _check(target)
    is_new = not target.exists()
    partial = (target.parent if is_new else target) / f".{target.name}.{os.urandom(6).hex()}.new"
    try:
        with disk_errors(target):
            partial.mkdir()
            notes = tuple(_Export(of, partial).write(command))
            if is_new:
                partial.rename(target)
            else:  # it stays the same folder: a shell may be in it, and it may be a link or a mount
                _move_up(partial)
    except OSError as error:
        clear(partial)
        raise CannotRun(f"{error.filename or target}: it cannot be exported: {error.strerror}") from error
    except BaseException:
        clear(partial)
        raise
    return notes


def _check(target: Path) -> None:
    if os.path.lexists(target) and (not target.is_dir() or os.listdir(target)):
        raise InputError(f"{target}: it exists and is not an empty folder; name another one")
    if not target.parent.is_dir():
        raise InputError(f"{target}: there is no folder {target.parent}")


def _move_up(folder: Path) -> None:
    """Move everything in a folder to its parent, and remove it."""
    for each in folder.iterdir():
        each.rename(folder.parent / each.name)
    folder.rmdir()


class _Export:
    """One export into an empty folder. What was inside the job file's folder keeps its place, if that is free."""

    def __init__(self, of: StoredRun, target: Path) -> None:
        self._of, self._target = of, target
        self._folder = os.path.dirname(of.record.file)
        self._taken = {JOB, LOCK, MARKET}
        self._cache = DocumentCache(Path(of.record.documents))

    def write(self, command: Sequence[str]) -> Iterator[str]:
        of, lock = self._of, self._of.record.lock
        old_code = stored_job.code_paths(of.job, of.options, self._folder, names_in(of.run.path, of.run.code.name))
        code = {name: self._place(path, f"code/{name}") for name, path in old_code.items()}
        for name, place in code.items():
            yield from self._copy_code(name, old_code[name], place)
        rules = tuple(self._write_rules(number, path) for number, path in enumerate(of.record.rules))
        found = self._documents(lock)
        yield from (f"{name}: not exported, because it held a secret" for name, data in found.items() if data is None)
        documents = {name: data for name, data in found.items() if data is not None}
        places = {name: self._place(name, f"files/{_file_name(name)}") for name in documents}
        files = {places[name]: self._write_document(name, data, places) for name, data in documents.items()}
        market, items = self._write_marketplace(lock)
        new = replace(lock, items=items, files=files)
        if new != lock_file.EMPTY:
            lock_file.save(str(self._target / LOCK), new)
        dotted = {name: stored_job.dotted(place) for name, place in code.items()}
        where = PartPlaces(dotted, rules, places, market or of.options.marketplace)
        content = _with_head(stored_job.text(of.record, of.job, of.options, where), _head(of, command))
        self._write(JOB, content.encode())

    def _place(self, old: str, otherwise: str) -> str:
        """A free place for what was at an absolute path: the same one relative to the job file, or another."""
        same = os.path.relpath(old, self._folder)
        inside = same != "." and not same.startswith("..") and not is_url(old)
        stem, suffix = os.path.splitext(otherwise)
        names = [*([same] if inside else []), otherwise, *(f"{stem}-{n}{suffix}" for n in range(2, 10_000))]
        place = next(name for name in names if self._is_free(name))
        self._taken.add(place)
        return place

    def _is_free(self, name: str) -> bool:
        return not any(name == other or f"{name}/".startswith(f"{other}/") or other.startswith(f"{name}/")
                       for other in self._taken)  # fmt: skip

    def _copy_code(self, name: str, old: str, place: str) -> Iterator[str]:
        source, target = self._of.run.code / name, self._target / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.mkdir()
        try:
            folder = f"{self._of.run.code.name}/{name}"
            left_out = tree_copy.copy(self._of.run.path, folder, target, rights=_RIGHTS)
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(f"{source}: the run's copy of the code is not there any more") from None
        yield from (
            f"{name}/{path} is a link that leads out of the code; it is not exported"
            for path in map(printable, left_out)
        )
        if os.listdir(target) == [os.path.basename(old)] and not (target / os.path.basename(old)).is_dir():
            _unfold(target)  # the code was a single file

    def _write_rules(self, number: int, path: str) -> str:
        written = [*self._of.job.kedge.rules, *self._of.options.rules]
        old = stored_job.absolute(written[number], self._folder) if number < len(written) else f"/{Path(path).name}"
        place = self._place(old, f"rules/{os.path.basename(old)}")
        self._write(place, untrusted.read(os.path.dirname(path), os.path.basename(path), _LARGEST_RULES))
        return place

    def _documents(self, lock: Lock) -> dict[str, bytes | None]:
        """The documents from files and from the web, by absolute path and URL; None for those that were not kept."""
        files = {stored_job.absolute(name, self._folder): sha256 for name, sha256 in lock.files.items()}
        urls = {key: locked.sha256 for key, locked in lock.items.items() if not key.startswith(_SCHEME)}
        return {name: self._cache.get(sha256) for name, sha256 in {**files, **urls}.items()}

    def _write_document(self, name: str, data: bytes, places: Mapping[str, str]) -> str:
        """Write a document with prerequisites to its new place. Returns its digest."""
        old, new = "/" if is_url(name) else os.path.dirname(name), os.path.dirname(places[name])
        content = data.decode()
        data = edited(content, stored_job.references(content, places, old, new), name).encode()
        self._write(places[name], data)
        return digest(data)

    def _write_marketplace(self, lock: Lock) -> tuple[str | None, dict[str, lock_file.Locked]]:
        """Write the items of the marketplace as one in a folder. Returns the folder, and the entries of the lock."""
        items: dict[str, lock_file.Locked] = dict(lock.items)
        index: dict[str, dict[str, Any]] = {}
        for key, locked in lock.items.items():
            data = self._cache.get(locked.sha256) if key.startswith(_SCHEME) else None
            if data is None:
                continue
            place = f"{locked.sha256}.yaml"
            self._write(f"{MARKET}/{place}", data)
            entry = {"id": locked.identity.removeprefix(_SCHEME), "path": place, "version": locked.version}
            index[locked.identity] = {**entry, **index.get(locked.identity, {}), **_named(key)}
            items[key] = replace(locked, source=f"{MARKET}/{place}")
        if not index:
            return None, items
        listed = [{"name": entry["id"], **entry} for entry in index.values()]
        self._write(f"{MARKET}/index.json", json.dumps({"items": listed}, indent=2).encode())
        return f"./{MARKET}", items

    def _write(self, place: str, data: bytes) -> None:
        path = self._target / place
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data, 0o666, synced=False)


def _named(key: str) -> dict[str, Any]:
    """The name, and if known the type, of the item behind a key of the lock: `marketplace://script/sold`."""
    kind, _, name = key.removeprefix(_SCHEME).removeprefix("prerequisites/").partition("/")
    return {} if kind == BY_ID else {"name": name, **({"type": kind} if kind in ITEM_TYPES else {})}


def _file_name(document: str) -> str:
    """A file name for the document at a path or URL."""
    name = re.sub(r"[^\w.-]+", "-", document.partition("?")[0].rpartition("/")[2]).lstrip(".-")
    return name if name.endswith((".yaml", ".yml")) else f"{name or 'document'}.yaml"


def _unfold(folder: Path) -> None:
    """Replace a folder with the only file in it."""
    name, aside = os.listdir(folder)[0], folder.with_name(f".{folder.name}.new")
    (folder / name).rename(aside)
    folder.rmdir()
    aside.rename(folder)


def _head(of: StoredRun, command: Sequence[str]) -> Iterator[str]:
    """Comments for the top of the exported file."""
    given = [*command, *(word for key in of.options.secrets for word in ("--secret", f"{key}=VALUE"))]
    given += (word for name in of.options.env_from_shell for word in ("--env", name))
    yield f"Exported from the run {of.run.id}. In this folder, run it with:"
    yield f"    kedge run {' '.join([JOB, *map(shlex.quote, given)])}"
    if of.options.secrets:
        yield "Its secrets were not stored. A value may also be given as @FILE or env:VARIABLE."
    if of.options.env_from_shell:
        yield f"Export {', '.join(of.options.env_from_shell)} before: kedge takes the values from your shell."
    yield from missing(of)


def _with_head(text: str, lines: Iterator[str]) -> str:
    """The text with comments at its top, below a comment for editors, which must be the first line."""
    head = "".join(f"# {printable(line)}\n" for line in lines)
    first, newline, rest = text.removeprefix("\ufeff").partition("\n")
    if first.startswith("# yaml-language-server:"):
        return first + newline + head + rest
    return head + first + newline + rest
