"""Who may do what, what a namespace still has room for, and failures that a test asks for."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import NamedTuple

from kedge.testing.kubernetes_api.refusals import FakeRefusal, Json
from kedge.testing.kubernetes_api.resources import FakePlace, ResourceKind
from kedge.testing.kubernetes_api.store import ObjectStore

USER = "system:serviceaccount:default:tester"


class Denied(NamedTuple):
    """A permission that is missing; an empty verb or resource stands for all. `resource` as `pods` or `pods/exec`."""

    verb: str = ""
    resource: str = ""

    def covers(self, verb: str, resource: str) -> bool:
        """Whether it denies this, or some of this if that is everything: `*`."""
        return ("*" in verb or self.verb in ("", verb)) and ("*" in resource or self.resource in ("", resource))


class ScriptedFailure(NamedTuple):
    """How the next `times` requests of a verb and a kind fail (empty: of any)."""

    code: int
    times: int
    verb: str
    kind: str
    message: str
    retry_after: int | None


class RefusedAdmission(NamedTuple):
    """What an admission controller refuses: objects of a kind whose name matches."""

    kind: str
    name: str  # a regular expression
    code: int
    message: str


class AccessRules:
    """What a test has set. `delay_sec` holds up every answer."""

    def __init__(self) -> None:
        self.delay_sec = 0.0
        self._lock = threading.Lock()
        self._denied: list[Denied] = []
        self._failures: list[ScriptedFailure] = []
        self._refused: list[RefusedAdmission] = []
        self._most: dict[str, int] = {}
        self._silent = threading.Event()
        self._awake = threading.Event()
        self._awake.set()

    def deny(self, verb: str = "", resource: str = "") -> None:
        """Take a permission away: requests answer 403, reviews say no. `resource` as `pods` or `pods/exec`."""
        self._denied.append(Denied(verb, resource))

    def allow_everything(self) -> None:
        """Give all permissions back."""
        self._denied.clear()

    def allows(self, verb: str, resource: str) -> bool:
        """The answer to a SelfSubjectAccessReview."""
        return not any(denied.covers(verb, resource) for denied in self._denied)

    def limit(self, kind: str, most: int | None) -> None:
        """A ResourceQuota: at most so many objects of a kind in a namespace. None: any number."""
        if most is None:
            self._most.pop(kind, None)
        else:
            self._most[kind] = most

    def refuse(self, kind: str, message: str, name: str = ".*", code: int = 403) -> None:
        """An admission controller that refuses to create these objects."""
        self._refused.append(RefusedAdmission(kind, name, code, message))

    def admit_everything(self) -> None:
        """End all that `refuse` began."""
        self._refused.clear()

    def fail(
        self,
        code: int,
        times: int = 1,
        verb: str = "",
        kind: str = "",
        message: str = "it fails on request",
        retry_after: int | None = None,
    ) -> None:
        """Let the next requests fail. `verb`: get, list, watch, create, update, patch, delete."""
        with self._lock:
            self._failures.append(ScriptedFailure(code, times, verb, kind, message, retry_after))

    def fall_silent(self) -> None:
        """Accept requests and answer none until `answer_again`."""
        self._awake.clear()

    def answer_again(self) -> None:
        """End what `fall_silent` began; requests that wait are answered now."""
        self._awake.set()

    def wait(self) -> None:
        """Hold up an answer as long as the test wants."""
        self._awake.wait()
        if self.delay_sec:
            self._silent.wait(self.delay_sec)

    def failure(self, verb: str, kind: str) -> ScriptedFailure | None:
        """The failure that is next for such a request; it counts as used."""
        with self._lock:
            for at, failure in enumerate(self._failures):
                if failure.verb in ("", verb) and failure.kind in ("", kind):
                    left = failure.times - 1
                    self._failures[at : at + 1] = [failure._replace(times=left)] if left else []
                    return failure
        return None

    def check_permission(self, verb: str, place: FakePlace) -> None:
        """FakeRefusal 403."""
        kind = place.kind
        resource = kind.plural + (f"/{place.subresource}" if place.subresource else "")
        if not self.allows(verb, resource):
            where = f' in the namespace "{place.namespace}"' if place.namespace else " at the cluster scope"
            name = f' "{place.name}"' if place.name else ""
            what = f'cannot {verb} resource "{resource}" in API group "{kind.group}"{where}'
            raise FakeRefusal(403, f'{kind.resource}{name} is forbidden: User "{USER}" {what}')

    def check_admission(self, store: ObjectStore, kind: ResourceKind, obj: Json) -> None:
        """FakeRefusal: an admission controller or the quota refuses a new object."""
        name = obj["metadata"].get("name") or obj["metadata"].get("generateName", "")
        for refused in self._refused:
            if refused.kind == kind.kind and re.fullmatch(refused.name, name):
                raise FakeRefusal(refused.code, refused.message)
        most = self._most.get(kind.kind)
        if most is None:
            return
        items, _ = store.matching(kind, obj["metadata"]["namespace"], _counts)
        if len(items) >= most:
            used = f"requested: {kind.plural}=1, used: {kind.plural}={len(items)}, limited: {kind.plural}={most}"
            raise FakeRefusal(403, f'{kind.resource} "{name}" is forbidden: exceeded quota: the-quota, {used}')


def _counts(obj: Json) -> bool:
    """A quota counts pods that have not ended."""
    return obj.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def review(rules: AccessRules, body: Json) -> Json:
    """The answer to a SelfSubjectAccessReview."""
    wanted = body.get("spec", {}).get("resourceAttributes", {})
    resource = "/".join(filter(None, (wanted.get("resource", ""), wanted.get("subresource", ""))))
    allowed = rules.allows(wanted.get("verb", ""), resource)
    return {**body, "metadata": {}, "status": {"allowed": allowed} | ({} if allowed else {"reason": ""})}


def verbs() -> Iterable[str]:
    """All verbs that `deny` and `fail` know."""
    return ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
