"""The names of a run's objects in its namespace. Each is a DNS label: lower case letters, digits and '-'.

The pod of task 3 of `worker` in the first attempt of the run `train-abc2345` is `train-abc2345-a0-worker-3`.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

from kedge.light.types import NamedTuple

LONGEST_NAME = 40  # of a run, which leaves room for what objects of it add
LONGEST_LABEL = 63
_HASH = 8  # hex digits
_LONGEST_ROLE = 50  # with a task's index it is a host name, too
_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")


class RunNames(NamedTuple):
    """The names of the objects of one run; `name` is what they all begin with."""

    name: str

    @classmethod
    def of(cls, run_id: str) -> RunNames:
        """Those of the run with this id. Different ids have different names, except for a collision of hashes."""
        return cls(_dns_label(run_id, LONGEST_NAME, start="kedge-"))

    @property
    def anchor(self) -> str:
        """The ConfigMap that owns all other objects."""
        return self.name

    @property
    def service(self) -> str:
        """The headless Service, and the subdomain of the pods."""
        return self.name

    @property
    def lease(self) -> str:
        return self.name

    @property
    def driver(self) -> str:
        """The Job of the driver."""
        return f"{self.name}-driver"

    @property
    def driver_secret(self) -> str:
        return f"{self.name}-driver"

    @property
    def pull_secret(self) -> str:
        """The Secret with the passwords of registries that the job file names."""
        return f"{self.name}-pull"

    @property
    def address(self) -> str:
        """The ConfigMap with the driver's address."""
        return f"{self.name}-address"

    @property
    def network(self) -> str:
        """The NetworkPolicy of all pods of the run."""
        return self.name

    def log(self, number: int) -> str:
        """A ConfigMap of the decision log, from 0."""
        return f"{self.name}-log-{number}"

    def code(self, number: int) -> str:
        """A ConfigMap with a piece of the job's code, from 0."""
        return f"{self.name}-code-{number}"

    def tokens(self, job_attempt: int) -> str:
        """The Secret with the tokens of the tasks of a job attempt."""
        return f"{self.name}-a{job_attempt}"

    def pod(self, job_attempt: int, role: str, index: int, task_attempt: int = 0) -> str:
        """The pod of a task attempt."""
        start = f"{self.name}-a{job_attempt}-"
        end = f"-{index}" + (f"-t{task_attempt}" if task_attempt else "")
        room = LONGEST_LABEL - len(start) - len(end)
        middle = role_name(role)
        if len(middle) > room:
            middle = _shortened(middle, role, max(room, _HASH))
        return _fitting(start + middle + end)


@lru_cache(256)  # asked for each task
def role_name(role: str) -> str:
    """A role as it stands in the names of objects. Different roles have different names."""
    return _dns_label(role, _LONGEST_ROLE)


def storage_volume(storage: str) -> str:
    """The volume of a storage in a pod."""
    return f"storage-{_dns_label(storage, _LONGEST_ROLE)}"


def claim_volume(claim: str) -> str:
    """The volume of a PersistentVolumeClaim in a pod, which has one for each claim: with two of the same claim, it
    would never start."""
    return f"claim-{_dns_label(claim, _LONGEST_ROLE)}"


def token_key(role: str, index: int) -> str:
    """The key of a task's token in the Secret of its job attempt."""
    return f"{role_name(role)}-{index}"


def hostname(role: str, index: int) -> str:
    """The host name of a task's pod."""
    return _fitting(f"{role_name(role)}-{index}")


def _dns_label(text: str, longest: int, start: str = "") -> str:
    """The text if it is a label already. Otherwise what is left of it and its hash. A label with `start` in it begins
    with a letter: that is put before one that begins with a digit."""
    plain = "".join(c if c in _ALLOWED else "-" for c in text.lower()).strip("-")
    if start and not plain[:1].isalpha():
        plain = f"{start}{plain}".rstrip("-")
    return plain if plain == text and len(text) <= longest else _shortened(plain, text, longest)


def _shortened(plain: str, text: str, longest: int) -> str:
    """The beginning of `plain`, and a hash of `text` that tells it from others."""
    kept = plain[: max(longest - _HASH - 1, 0)].strip("-")
    digits = hashlib.sha256(text.encode()).hexdigest()[:_HASH]
    return f"{kept}-{digits}" if kept else digits


def _fitting(name: str) -> str:
    return name if len(name) <= LONGEST_LABEL else _shortened(name, name, LONGEST_LABEL)
