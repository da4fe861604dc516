"""The action `download`: fetches data, checks and unpacks it, and moves it into place when it is complete.

Parameters: `uri`, or `uris` (a list); `path`, a folder if it ends with "/" or if there are several addresses; `sha256`
(only for a single address); `unpack` (default true: archives are unpacked); `max_bytes` and `max_unpacked_bytes`;
`silence_sec`; `patience` (kedge.runtime.actions.backoff.Backoff). An address is http(s), file, anything that fsspec
supports, or a path.
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
from kedge.runtime.actions.backoff import Backoff
from kedge.runtime.actions.base import ActionFailed, ActionJob, expand, of_os_error, required
from kedge.runtime.actions.http_download import VERSION_SUFFIX, Transfer, TransferLimits, format_size
from kedge.runtime.actions.unpack import unpack

_FETCHED = "fetched"


class DownloadItem(NamedTuple):
    """One address to fetch. `place` is the target path, a folder if it is unpacked; `name` is the last part of the
    address."""

    uri: str
    name: str
    place: str
    archive: bool
    digest: str | None
    limits: TransferLimits
    unpacked_limit: int | None


def run(parameters: Mapping[str, Any], job: ActionJob) -> None:
    """Fetch all addresses. ActionFailed explains a failure."""
    uris = parameters.get("uris") or [required(parameters, "uri", "download")]
    items = [_item(parameters, uri, several=len(uris) > 1) for uri in uris]
    patience = Backoff.of(parameters)
    patience.spread(job)
    for item in items:
        if _is_there(item):
            job.log(f"{item.place} exists already")
            continue
        _fetch(item, patience, job)
        job.log(f"downloaded {shown(item.uri)} to {item.place}")


def _item(parameters: Mapping[str, Any], uri: str, several: bool) -> DownloadItem:
    name = _name(uri)
    archive = parameters.get("unpack") is not False and is_archive(name)
    path = parameters.get("path") or "./"
    place = expand(path)
    if not archive and (several or path.endswith("/")):
        place = os.path.join(place, name)
    return DownloadItem(
        uri, name, place, archive, None if several else parameters.get("sha256"),
        TransferLimits(parameters.get("max_bytes"), parameters.get("silence_sec", 60.0)),
        parameters.get("max_unpacked_bytes"),
    )  # fmt: skip


def _name(uri: str) -> str:
    """The last part of an address. ActionFailed if it is not a valid address."""
    if _scheme(uri) in addresses.HTTP:
        addresses.parse(uri)
    elif "://" in uri:
        addresses.check(uri)
    name = os.path.basename((_path(uri) if "://" in uri else uri).rstrip("/"))
    return name if name not in ("", ".", "..") and "\0" not in name else "download"


def _path(uri: str) -> str:
    """The path after the host of an address."""
    before = re.split("[?#]", uri.partition("://")[2], maxsplit=1)[0]
    return unquote("/" + before.partition("/")[2])


def _scheme(uri: str) -> str:
    return uri.partition("://")[0].lower() if "://" in uri else ""


def _is_there(item: DownloadItem) -> bool:
    """Whether the target is a file with the right sum, which need not be fetched again."""
    if item.archive or not item.digest or not os.path.isfile(item.place):
        return False
    return data_cache.sha256(item.place) == item.digest


def _fetch(item: DownloadItem, patience: Backoff, job: ActionJob) -> None:
    with staging.beside(item.place, (_FETCHED, _FETCHED + VERSION_SUFFIX)) as folder:
        with _obtained(item, folder, patience, job) as path:
            ready = os.path.join(folder, "ready")
            if item.archive and not os.path.isdir(path):
                os.mkdir(ready)
                unpack(path, item.name, ready, item.unpacked_limit)
            elif os.path.dirname(path) == folder:
                os.rename(path, ready)
            else:
                _copy(path, ready)
        staging.put(ready, item.place)


@contextlib.contextmanager
def _obtained(item: DownloadItem, folder: str, patience: Backoff, job: ActionJob) -> Iterator[str]:
    """The path of the complete, checked data: in `folder`, in the cache, or at its local address."""
    if (local := _local(item.uri)) is not None:
        _check_local(local, item)
        yield local
        return
    if item.digest and (cache := data_cache.find(job.pai)):
        with data_cache.entry(cache, item.digest, lambda path: _complete(item, path, patience, job), job) as path:
            yield path
        return
    path = os.path.join(folder, _FETCHED)
    try:
        _complete(item, path, patience, job)
    except ActionFailed as failed:
        if failed.transient and os.path.exists(path):
            size = format_size(os.path.getsize(path))
            job.log(f"kept {size} of {item.name} beside {item.place} for the next try")
        raise
    yield path


def _complete(item: DownloadItem, path: str, patience: Backoff, job: ActionJob) -> None:
    """Fetch what is missing at `path`, and check the whole. If the check fails and an earlier process had left a part,
    fetch everything again."""
    had_part = os.path.exists(path)
    _transfer(item, path, patience, job)
    try:
        data_cache.check(path, item.digest, shown(item.uri))
    except ActionFailed:
        os.unlink(path)
        if not had_part:
            raise
        job.log(f"{item.name}: the part left by an earlier try is not usable; fetching everything again")
        _complete(item, path, patience, job)


def _transfer(item: DownloadItem, path: str, patience: Backoff, job: ActionJob) -> None:
    if _scheme(item.uri) in addresses.HTTP:
        patience.retry(job, Transfer(item.uri, path, item.limits, job, bool(item.digest)).attempt)
    else:
        patience.retry(job, lambda: fsspec_storages.fetch(item.uri, path))


def _local(uri: str) -> str | None:
    """The path of an address without a server, None for other addresses."""
    if _scheme(uri) not in ("", "file"):
        return None
    return expand(uri) if "://" not in uri else _path(uri)


def _check_local(path: str, item: DownloadItem) -> None:
    try:
        kind = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        raise ActionFailed(f"{shown(path)} does not exist", "data_file_missing") from error
    if stat.S_ISREG(kind):
        data_cache.check(path, item.digest, path)
    elif not stat.S_ISDIR(kind):
        raise _special_file(path)


def _copy(source: str, target: str) -> None:
    if os.path.isdir(source):
        shutil.copytree(source, target, symlinks=True, copy_function=_copy_with_mode)
    else:
        _copy_file(source, target)


def _copy_file(source: str, target: str) -> None:
    """Copy a regular file. ActionFailed if it is something else by now: a pipe would block, a device never end."""
    fd = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as origin, open(target, "wb") as copy:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise _special_file(source)
        try:
            _copy_content(origin, copy)
        except OSError as error:
            raise of_os_error(OSError(error.errno, error.strerror, target)) from error


def _copy_with_mode(source: str, target: str) -> None:
    _copy_file(source, target)
    shutil.copystat(source, target)


def _copy_content(origin: IO[bytes], copy: IO[bytes]) -> None:
    try:  # copies in the kernel, and by reference where the file system supports that
        while os.copy_file_range(origin.fileno(), copy.fileno(), 1 << 30):
            continue
    except OSError:
        origin.seek(0)
        copy.seek(0)
        copy.truncate(0)
        shutil.copyfileobj(origin, copy)


def _special_file(path: str) -> ActionFailed:
    return ActionFailed(f"{path} is neither a file nor a folder, but a pipe, a device or the like", "bad_config")
