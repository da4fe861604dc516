"""The action `download`: data are fetched, checked, unpacked, and put in their place when they are whole.

Parameters: `uri`, or `uris` (a list); `path`, a folder if it ends with "/" or where there are several addresses;
`sha256` (of a single one); `unpack` (archives are, unless it is false); `max_bytes` and `max_unpacked_bytes`;
`silence_sec`; `patience` (kedge.runtime.actions.base.Patience). Addresses are http(s), file, whatever fsspec knows, or
paths.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from typing import IO, Any, NamedTuple
from urllib.parse import unquote

from kedge.runtime.actions import addresses, data_cache, fsspec_storages, staging
from kedge.runtime.actions.addresses import shown
from kedge.runtime.actions.archives import is_archive
from kedge.runtime.actions.base import ActionFailed, ActionJob, Patience, expand, of_os_error, required
from kedge.runtime.actions.http_download import NOTE, Transfer, TransferLimits, human
from kedge.runtime.actions.unpack import unpack

_FETCHED = "fetched"


class Wanted(NamedTuple):
    """One thing to fetch. `place`: where it goes, a folder if it is unpacked; `name`: the last part of the address."""

    uri: str
    name: str
    place: str
    archive: bool
    digest: str | None
    limits: TransferLimits
    unpacked_limit: int | None


def run(parameters: Mapping[str, Any], job: ActionJob) -> None:
    """Fetch all. ActionFailed says why not."""
    uris = parameters.get("uris") or [required(parameters, "uri", "download")]
    all_wanted = [_wanted(parameters, uri, several=len(uris) > 1) for uri in uris]
    patience = Patience.of(parameters)
    patience.spread(job)
    for wanted in all_wanted:
        if _is_there(wanted):
            job.say(f"{wanted.place} is there already")
            continue
        _fetch(wanted, patience, job)
        job.say(f"{shown(wanted.uri)} is at {wanted.place}")


def _wanted(parameters: Mapping[str, Any], uri: str, several: bool) -> Wanted:
    name = _name(uri)
    archive = parameters.get("unpack") is not False and is_archive(name)
    path = parameters.get("path") or "./"
    place = expand(path)
    if not archive and (several or path.endswith("/")):
        place = os.path.join(place, name)
    return Wanted(
        uri, name, place, archive, None if several else parameters.get("sha256"),
        TransferLimits(parameters.get("max_bytes"), parameters.get("silence_sec", 60.0)),
        parameters.get("max_unpacked_bytes"),
    )  # fmt: skip


def _name(uri: str) -> str:
    """The last part of an address. ActionFailed for what is no address."""
    if _scheme(uri) in addresses.HTTP:
        addresses.parse(uri)
    elif "://" in uri:
        addresses.check(uri)
    name = os.path.basename((_path(uri) if "://" in uri else uri).rstrip("/"))
    return name if name not in ("", ".", "..") and "\0" not in name else "download"


def _path(uri: str) -> str:
    """What stands behind the host of an address."""
    before = re.split("[?#]", uri.partition("://")[2], maxsplit=1)[0]
    return unquote("/" + before.partition("/")[2])


def _scheme(uri: str) -> str:
    return uri.partition("://")[0].lower() if "://" in uri else ""


def _is_there(wanted: Wanted) -> bool:
    """A file with the right sum need not be fetched again."""
    if wanted.archive or not wanted.digest or not os.path.isfile(wanted.place):
        return False
    return data_cache.sha256(wanted.place) == wanted.digest


def _fetch(wanted: Wanted, patience: Patience, job: ActionJob) -> None:
    with staging.beside(wanted.place, (_FETCHED, _FETCHED + NOTE)) as folder:
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
def _obtained(wanted: Wanted, folder: str, patience: Patience, job: ActionJob) -> Iterator[str]:
    """The data, whole and checked: in `folder`, in the cache, or where they lie anyway."""
    if (local := _local(wanted.uri)) is not None:
        _check_local(local, wanted)
        yield local
        return
    if wanted.digest and (cache := data_cache.find(job.pai)):
        with data_cache.entry(cache, wanted.digest, lambda path: _complete(wanted, path, patience, job), job) as path:
            yield path
        return
    path = os.path.join(folder, _FETCHED)
    try:
        _complete(wanted, path, patience, job)
    except ActionFailed as failed:
        if failed.transient and os.path.exists(path):
            job.say(f"{human(os.path.getsize(path))} of {wanted.name} stay beside {wanted.place} for the next try")
        raise
    yield path


def _complete(wanted: Wanted, path: str, patience: Patience, job: ActionJob) -> None:
    """Fetch to `path` what is not there yet, and check it. What an earlier process has left there may not fit."""
    left = os.path.exists(path)
    _transfer(wanted, path, patience, job)
    try:
        data_cache.check(path, wanted.digest, shown(wanted.uri))
    except ActionFailed:
        os.unlink(path)
        if not left:
            raise
        job.say(f"{wanted.name}: what an earlier try has left is of no use")
        _complete(wanted, path, patience, job)


def _transfer(wanted: Wanted, path: str, patience: Patience, job: ActionJob) -> None:
    if _scheme(wanted.uri) in addresses.HTTP:
        patience.persist(job, Transfer(wanted.uri, path, wanted.limits, job, bool(wanted.digest)).attempt)
    else:
        patience.persist(job, lambda: fsspec_storages.fetch(wanted.uri, path))


def _local(uri: str) -> str | None:
    """The path that an address without a server means."""
    if _scheme(uri) not in ("", "file"):
        return None
    return expand(uri) if "://" not in uri else _path(uri)


def _check_local(path: str, wanted: Wanted) -> None:
    try:
        kind = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        raise ActionFailed(f"{shown(path)} does not exist", "data_file_missing") from error
    if stat.S_ISREG(kind):
        data_cache.check(path, wanted.digest, path)
    elif not stat.S_ISDIR(kind):
        raise _no_file(path)


def _copy(source: str, target: str) -> None:
    if os.path.isdir(source):
        shutil.copytree(source, target, symlinks=True, copy_function=_copy_with_mode)
    else:
        _copy_file(source, target)


def _copy_file(source: str, target: str) -> None:
    """A regular file, whatever it is at this moment: a pipe would block, a device never end."""
    fd = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as origin, open(target, "wb") as copy:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise _no_file(source)
        try:
            _copy_content(origin, copy)
        except OSError as error:
            raise of_os_error(OSError(error.errno, error.strerror, target)) from error


def _copy_with_mode(source: str, target: str) -> None:
    _copy_file(source, target)
    shutil.copystat(source, target)


def _copy_content(origin: IO[bytes], copy: IO[bytes]) -> None:
    try:  # in the kernel, and by reference where the file system can do that
        while os.copy_file_range(origin.fileno(), copy.fileno(), 1 << 30):
            continue
    except OSError:
        origin.seek(0)
        copy.seek(0)
        copy.truncate(0)
        shutil.copyfileobj(origin, copy)


def _no_file(path: str) -> ActionFailed:
    return ActionFailed(f"{path} is neither a file nor a folder, but a pipe, a device or the like", "bad_config")
