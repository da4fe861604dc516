"""Which accounts and qualities of service this user may use, where Slurm's accounting enforces that, and which limits
of partitions a quality of service lifts."""

from __future__ import annotations

import os
import pwd
from typing import NamedTuple

from kedge.engines.slurm import cluster_facts, commands
from kedge.engines.slurm.commands import SlurmError, SlurmSite

_ENFORCED = frozenset({"associations", "limits", "nojobs", "nosteps", "qos", "safe", "wckeys", "all"})
TIME_LIMIT, NODE_LIMIT = "PartitionTimeLimit", "PartitionMaxNodes"  # flags of a quality of service
_FIELDS = "account,partition,qos"
_PATIENCE_SEC = 10.0  # a check must not hold up a job for long; sbatch checks again


class Association(NamedTuple):
    """An account of the user; `partition` is empty if it is good in all of them. `qos` is what it may use."""

    account: str
    partition: str
    qos: frozenset[str]

    def fits(self, account: str | None, partition: str) -> bool:
        """Whether it is that account, in this partition. Slurm ignores the case of accounts."""
        same = account is None or account.lower() == self.account.lower()
        return same and self.partition in ("", partition)


class Associations(NamedTuple):
    """What `user` has. `with_qos`: which quality of service is used is enforced, too."""

    user: str
    known: tuple[Association, ...]
    with_qos: bool


def read(site: SlurmSite) -> Associations | None:
    """The associations of this user; None where none are needed, or where nobody tells."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
        settings = cluster_facts.settings(site)
        enforced = {word.strip().lower() for word in settings.get("AccountingStorageEnforce", "").split(",")}
        if not enforced & _ENFORCED:
            return None
        cluster = settings.get("ClusterName", "")
        argv = ("sacctmgr", "--noheader", "--parsable2", "show", "associations", f"user={user}", f"cluster={cluster}")
        text = commands.run(site, *argv, f"format={_FIELDS}", patience_sec=_PATIENCE_SEC)
    except (KeyError, SlurmError):
        return None
    return Associations(user, tuple(parse(text)), bool(enforced & {"qos", "all"}))


def lifted_limits(site: SlurmSite, qos: str) -> frozenset[str]:
    """Which limits of its partition a job with this quality of service may exceed: TIME_LIMIT, NODE_LIMIT. Both if
    nobody tells: then Slurm decides."""
    argv = ("sacctmgr", "--noheader", "--parsable2", "show", "qos", qos, "format=flags")
    try:
        flags = commands.run(site, *argv, patience_sec=_PATIENCE_SEC)
    except SlurmError:
        return frozenset({TIME_LIMIT, NODE_LIMIT})
    return frozenset(flags.strip().split(",")) & {TIME_LIMIT, NODE_LIMIT}


def parse(text: str) -> list[Association]:
    """The associations in the output of sacctmgr. Lines that are not understood are left out."""
    lines = (line.split("|") for line in text.splitlines())
    found = (line for line in lines if len(line) == 3 and line[0])
    return [
        Association(account, partition, frozenset(filter(None, qos.split(",")))) for account, partition, qos in found
    ]
