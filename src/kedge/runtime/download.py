"""The action `download`: data are fetched, checked, unpacked, and put in their place when they are whole.

Parameters: `uri`, or `uris` (a list); `path`, a folder if it ends with "/" or where there are several addresses;
`sha256` (of a single one); `unpack` (archives are, unless it is false); `max_bytes` and `max_unpacked_bytes`;
`silence_sec`; `patience` (kedge.runtime.failed.Patience). Addresses are http(s), file, whatever fsspec knows, or paths.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from kedge.runtime import datacache, remotes, staging
from kedge.runtime.failed import Failed, Job, Patience, expand, required
from kedge.runtime.httpget import Limits, Transfer, shown
from kedge.runtime.unpack import is_archive, unpack


class Wanted(NamedTuple):
    """One thing to fetch. `place`: where it goes, a folder if it is unpacked; `name`: the last part of the address."""

    uri: str
    name: str
    place: str
    archive: bool
    digest: str | None
    limits: Limits
    unpacked_limit: int | None


def run(parameters: Mapping[str, Any], job: Job) -> None:
    """Fetch all. Failed says why not."""
    uris = parameters.get("uris") or [required(parameters, "uri", "download")]
    patience = Patience.of(parameters)
    patience.spread(job)
    for uri in uris:
        wanted = _wanted(parameters, uri, several=len(uris) > 1)
        if _is_there(wanted):
            job.say(f"{wanted.place} is there already")
            continue
        _fetch(wanted, patience, job)
        job.say(f"{shown(wanted.uri)} is at {wanted.place}")


def _wanted(parameters: Mapping[str, Any], uri: str, several: bool) -> Wanted:
    address = unquote(urlsplit(uri).path) if "://" in uri else uri
    name = os.path.basename(address.rstrip("/"))
    name = name if name not in ("", ".", "..") and "\0" not in name else "download"
    archive = parameters.get("unpack") is not False and is_archive(name)
    path = parameters.get("path") or "./"
    place = expand(path)
    if not archive and (several or path.endswith("/")):
        place = os.path.join(place, name)
    return Wanted(
        uri, name, place, archive, None if several else parameters.get("sha256"),
        Limits(parameters.get("max_bytes"), parameters.get("silence_sec", 60.0)), parameters.get("max_unpacked_bytes"),
    )  # fmt: skip


def _is_there(wanted: Wanted) -> bool:
    """A file with the right sum need not be fetched again."""
    if wanted.archive or not wanted.digest or not os.path.isfile(wanted.place):
        return False
    return datacache.sha256(wanted.place) == wanted.digest


def _fetch(wanted: Wanted, patience: Patience, job: Job) -> None:
    with staging.beside(wanted.place) as folder:
        with _obtained(wanted, folder, patience, job) as path:
            ready = os.path.join(folder, "ready")
            if wanted.archive and not os.path.isdir(path):
                os.mkdir(ready)
                unpack(path, wanted.name, ready, wanted.unpacked_limit)
            elif os.path.dirname(path) == folder:
                os.rename(path, ready)
            else:
                _copy(path, ready)
        staging.put(ready, wanted.place)


@contextlib.contextmanager
def _obtained(wanted: Wanted, folder: str, patience: Patience, job: Job) -> Iterator[str]:
    """The data, whole and checked: in `folder`, in the cache, or where they lie anyway."""
    if (local := _local(wanted.uri)) is not None:
        _check_local(local, wanted)
        yield local
        return
    if wanted.digest and (cache := datacache.find(job.pai)):
        with datacache.entry(cache, wanted.digest, lambda path: _complete(wanted, path, patience, job), job) as path:
            yield path
        return
    path = os.path.join(folder, "fetched")
    _complete(wanted, path, patience, job)
    yield path


def _complete(wanted: Wanted, path: str, patience: Patience, job: Job) -> None:
    """Fetch to `path` what is not there yet, and check it. What an earlier process has left there may not fit."""
    left = os.path.exists(path)
    _transfer(wanted, path, patience, job)
    try:
        datacache.check(path, wanted.digest, shown(wanted.uri))
    except Failed:
        os.unlink(path)
        if not left:
            raise
        job.say(f"{wanted.name}: what an earlier try has left is of no use")
        _complete(wanted, path, patience, job)


def _transfer(wanted: Wanted, path: str, patience: Patience, job: Job) -> None:
    if urlsplit(wanted.uri).scheme in ("http", "https"):
        patience.persist(job, Transfer(wanted.uri, path, wanted.limits, job, bool(wanted.digest)).attempt)
    else:
        patience.persist(job, lambda: remotes.fetch(wanted.uri, path))


def _local(uri: str) -> str | None:
    """The path that an address without a server means."""
    if "://" not in uri:
        return expand(uri)
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else None


def _check_local(path: str, wanted: Wanted) -> None:
    if not os.path.exists(path):
        raise Failed(f"{path} does not exist", "data_file_missing")
    if not os.path.isdir(path):
        datacache.check(path, wanted.digest, path)


def _copy(source: str, target: str) -> None:
    if os.path.isdir(source):
        shutil.copytree(source, target, symlinks=True)
        return
    with open(source, "rb") as origin, open(target, "wb") as copy:
        try:  # in the kernel, and by reference where the file system can do that
            while os.copy_file_range(origin.fileno(), copy.fileno(), 1 << 30):
                continue
        except OSError:
            origin.seek(0)
            copy.truncate(0)
            shutil.copyfileobj(origin, copy)
