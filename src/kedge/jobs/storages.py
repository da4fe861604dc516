"""The storages of a site, of a user and of a submission: who may use which, and where they are.

The names are checked with the job file. Folders are looked at when the job is planned, by a child with a deadline.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from kedge.errors import CannotRun, InputError
from kedge.jobs import storage_folders
from kedge.jobs.storage_folders import FolderLook, Folders, FolderState
from kedge.jobs.user import Account, account
from kedge.resolve.model import Mount, RemoteStorage, StorageNames, VolumeClaim
from kedge.settings.storage_checks import wrong_name
from kedge.settings.table import DEFAULT_STORAGES, STORAGES, STORAGES_LIMIT
from kedge.settings.values import AllSettings, SettingValue
from kedge.spec.message_text import quote
from kedge.spec.suggest import name_list

_OPTION = "--storage"


class KnownStorage(NamedTuple):
    """A storage that a settings file or the submitter names. `values` are its keys in the file; `of_site`: only the
    site's administrator can have named it."""

    name: str
    origin: str
    of_site: bool
    values: Mapping[str, Any]

    def allows(self, who: Account, members: Mapping[str, Iterable[str]]) -> bool:
        """Whether this user may use it. `members` are the users of the site's own groups."""
        return _listed(self.values.get("users"), who, members)

    def read_only(self, who: Account, members: Mapping[str, Iterable[str]]) -> bool:
        """Whether this user can only read it."""
        return bool(self.values.get("readOnly")) or not _listed(self.values.get("writers"), who, members)

    def sub_path(self, who: Account, job: str) -> str:
        """The folder in it that this user's job gets; empty for all of it. InputError: a name is no name of a
        folder."""
        found = str(self.values.get("subPath", ""))
        for placeholder, value in (("{user}", who.name), ("{job}", job)):
            if placeholder in found and (value in ("", ".", "..") or any(c in value for c in "/\0{}")):
                raise InputError(f"{self.origin}: storage {self.name}: {quote(value)} cannot be a folder in it")
            found = found.replace(placeholder, value)
        return os.path.normpath(found) if found else ""

    @property
    def shown_place(self) -> str:
        """Where it is, for a list; placeholders stand for what differs between users and jobs."""
        remote = f"{self.remote.kind} {self.remote.device}" if self.remote else ""
        place = self.values.get("path") or remote or f"claim {self.values['pvc']}"
        return "/".join(filter(None, (str(place), str(self.values.get("subPath", "")))))

    @property
    def remote(self) -> RemoteStorage | None:
        """The server's file system behind it, if there is one."""
        if nfs := self.values.get("nfs"):
            return RemoteStorage("nfs", nfs["server"], os.path.normpath(nfs["path"]), nfs.get("options", ""))
        if cifs := self.values.get("cifs"):
            server, _, share = cifs["share"][2:].partition("/")
            path = f"/{share.strip('/')}"
            return RemoteStorage("cifs", server, path, cifs.get("options", ""), self.values.get("credentials"))
        return None


def _listed(listed: Iterable[str] | None, who: Account, members: Mapping[str, Iterable[str]]) -> bool:
    """Whether a list of users and @groups names this user; a missing list names everybody."""
    if listed is None:
        return True
    for entry in listed:
        group = entry.removeprefix("@")
        if entry == who.name:
            return True
        if group != entry and (who.name in members[group] if group in members else group in who.groups):
            return True
    return False


class Storages:
    """What one submitter may use. `given` are the folders that the submitter names for this job."""

    def __init__(self, settings: AllSettings, given: Mapping[str, str]) -> None:
        self._settings = settings
        groups = settings.group("groups")
        self._members = {name: tuple(keys["members"].value) for name, keys in groups.items()}
        self._known = {name: _of_file(name, keys, settings) for name, keys in settings.group(STORAGES).items()}
        self._folders = Folders()
        self._site = tuple(each for each in self._known.values() if each.of_site)
        for name, folder in given.items():
            if wrong := wrong_name(name):
                raise InputError(f"{_OPTION} {name}: {wrong}")
            path = os.path.abspath(os.path.expanduser(folder))
            self._known[name] = KnownStorage(name, f"{_OPTION} {name}", False, {"path": path})

    def names(self, with_defaults: bool) -> StorageNames:
        """Their names, for the check of the job. InputError: `default-storages`, which are used `with_defaults`, names
        one that the submitter may not use."""
        if not self._known:
            return StorageNames()
        allowed = [name for name, each in self._known.items() if each.allows(*self._who)]
        forbidden = {
            name: f"storages.{name}.users names neither {self._who[0].name} nor a group of this account ({each.origin})"
            for name, each in self._known.items()
            if name not in allowed
        }
        return StorageNames(tuple(allowed), self._defaults(allowed, with_defaults), forbidden)

    def _defaults(self, allowed: Collection[str], checked: bool) -> tuple[str, ...]:
        """The names of the default storages. A list of the site takes the place of the site's marks only."""
        marked = [name for name in allowed if self._known[name].values.get("default")]
        listed = self._settings.get(DEFAULT_STORAGES)
        if listed.value is None:
            return tuple(marked)
        if checked and (wrong := [name for name in listed.value if name not in allowed]):
            known = f"you may use {name_list(allowed)}" if allowed else "you may use none"
            message = f"default-storages: there is no {quote(wrong[0])} that you may use; {known}"
            raise InputError(f"{listed.origin}: {message}")
        of_user = (DEFAULT_STORAGES.key,) in self._settings.of_user
        own = [name for name in marked if not (of_user or self._known[name].of_site)]
        return tuple(dict.fromkeys([*listed.value, *own]))

    def placed(self, mounts: Iterable[Mount], job: str) -> tuple[tuple[Mount, ...], list[str]]:
        """The mounts with their places, and notes. InputError: a folder is missing or must not be used. CannotRun: it
        does not answer."""
        mounts = list(mounts)
        self._folders.look(self._looks({mount.name for mount in mounts}, job))
        places: dict[str, Mount] = {}
        notes: list[str] = []
        result = []
        for mount in mounts:
            if mount.name not in places:
                places[mount.name], note = self._placed(self._known[mount.name], mount, job)
                notes.append(note)
            result.append(places[mount.name]._replace(path=mount.path))
        return tuple(result), notes

    def make_folders(self, mounts: Iterable[Mount], job: str) -> None:
        """Make the missing folders that the site lets kedge make. The errors of `placed`."""
        for name in dict.fromkeys(mount.name for mount in mounts if mount.folder):
            if self._known[name].values.get("makeSubPath"):
                self._look(self._known[name], self._look_of(self._known[name], job)._replace(make=True))

    def _looks(self, names: Collection[str], job: str) -> Iterator[FolderLook]:
        """All that has to be looked at for these storages."""
        wanted = [self._known[name] for name in names]
        yield from (self._look_of(known, job) for known in wanted if "path" in known.values)
        if not all(known.of_site for known in wanted):
            yield from (FolderLook(site.values["path"]) for site in self._site if "path" in site.values)
            yield from map(FolderLook, self._settings.get(STORAGES_LIMIT).value or ())

    def _look_of(self, known: KnownStorage, job: str) -> FolderLook:
        kind = known.remote.kind if known.remote else ""
        return FolderLook(known.values["path"], known.sub_path(self._who[0], job), kind=kind)

    def _look(self, known: KnownStorage, look: FolderLook) -> FolderState:
        """What there is at a storage's folder. InputError: it cannot be used. CannotRun: it does not answer."""
        found = self._folders.of(look)
        if found.hangs:
            limit = f"{storage_folders.LOOK_SEC:g} s"
            text = f"{look.folder} does not answer within {limit}; the server of its file system may be down"
            raise CannotRun(_message(known, text))
        if found.problem:
            raise InputError(_message(known, found.problem))
        return found

    def _real(self, folder: str) -> str:
        """A folder without links; as it is written if it does not answer."""
        return self._folders.of(FolderLook(folder)).real

    @property
    def known(self) -> Iterator[tuple[KnownStorage, bool, bool]]:
        """Each storage, whether the submitter may use it, and whether only for reading."""
        for each in self._known.values():
            yield each, each.allows(*self._who), each.read_only(*self._who)

    @property
    def _who(self) -> tuple[Account, Mapping[str, Iterable[str]]]:
        return _account(), self._members

    def _placed(self, known: KnownStorage, mount: Mount, job: str) -> tuple[Mount, str]:
        mount = self._away(known, mount, job)._replace(read_only=known.read_only(*self._who))
        later = ""
        if "path" in known.values and not (mount.claim and self._is_elsewhere(known, job)):
            found = self._look(known, self._look_of(known, job))
            if found.missing and not known.values.get("makeSubPath"):
                raise InputError(_message(known, f"there is no folder {found.real}"))
            later = ", which will be made" if found.missing else ""
            mount = mount._replace(folder=found.real)
            if not known.of_site:
                mount = self._within_site(known, mount, job)
        access = ", read-only" if mount.read_only else ""
        return mount, f"storage {known.name}: {mount.place}{later}{access} ({known.origin})"

    def _away(self, known: KnownStorage, mount: Mount, job: str) -> Mount:
        """The mount with what other machines can use: the server's file system, the claim of a namespace."""
        below = known.sub_path(self._who[0], job)
        if remote := known.remote:
            path = f"{remote.path.rstrip('/')}/{below}".rstrip("/") or "/"
            mount = mount._replace(remote=remote._replace(path=path))
        claim = known.values.get("pvc")
        return mount._replace(claim=VolumeClaim(claim, below)) if claim else mount

    def _is_elsewhere(self, known: KnownStorage, job: str) -> bool:
        """Whether the folder of a storage cannot be used on this machine. Pods need only its claim."""
        found = self._folders.of(self._look_of(known, job))
        return bool(found.problem) or found.hangs

    def _within_site(self, own: KnownStorage, mount: Mount, job: str) -> Mount:
        """The mount of a user's own folder as the site's file allows it: what is in storages of the site is used by the
        rules of one that the user may use, what contains some by the rules of all. InputError: it does not allow it."""
        folder = str(mount.folder)
        allowed = self._settings.get(STORAGES_LIMIT)
        if allowed.value is not None and not any(_inside(folder, self._real(each)) for each in allowed.value):
            where = f"only folders in {', '.join(allowed.value)}" if allowed.value else "none"
            raise InputError(_message(own, f"the site allows {where} as your own storage ({allowed.origin})"))
        around, below = [], []
        for site in (site for site in self._site if "path" in site.values):
            root = self._real(site.values["path"])
            part = os.path.join(root, site.sub_path(self._who[0], job)).rstrip("/")
            is_for_user = site.allows(*self._who)
            if _inside(folder, root):
                around.append((site, is_for_user and _inside(folder, part)))
            elif _inside(root, folder):
                below.append((site, is_for_user and part == root))
        wrong = [site for site, usable in around or below if not usable]
        if (wrong and not around) or (around and len(wrong) == len(around)):
            what = f"{folder} is or contains the storage {wrong[0].name} of the site, which is not for you"
            raise InputError(_message(own, f"{what} ({wrong[0].origin})"))
        rules = [site.read_only(*self._who) for site, usable in around or below if usable]
        narrowed = all(rules) if around else any(rules)
        return mount._replace(read_only=mount.read_only or narrowed)


def _of_file(name: str, keys: Mapping[str, SettingValue], settings: AllSettings) -> KnownStorage:
    first = min(keys.values(), key=lambda value: value.origin.line)
    of_site = not any((STORAGES, name, key) in settings.of_user for key in keys)
    return KnownStorage(name, str(first.origin), of_site, {key: found.value for key, found in keys.items()})


@cache
def _account() -> Account:
    return account()


def _inside(path: str, folder: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")


def _message(known: KnownStorage, text: str) -> str:
    head = known.origin if known.origin.startswith(_OPTION) else f"{known.origin}: storage {known.name}"
    return f"{head}: {text}"
