"""What a cluster has, as sinfo and scontrol report it: partitions, their limits and their nodes. Two calls, and only
plain text, which all versions of Slurm print alike. And how it is configured."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kedge.engines.slurm import clock, commands
from kedge.engines.slurm.commands import SlurmSite

# Partition, availability, time limit, number of nodes; and of each of these nodes: cores, MiB, GRES, features.
_FORMAT = "%P|%a|%l|%D|%c|%m|%G|%f"
_PAIR = re.compile(r"(\w+)=(\S*)")
_SOCKETS = re.compile(r"\([^)]*\)")
_NUMBER = re.compile(r"[0-9]+")
_SETTING = re.compile(r"^(\w+)\s*= (.*)$", re.MULTILINE)
_SETTINGS_SEC = 10.0  # what depends on the answer must not hold up a job for long; sbatch checks again
_NOBODY = frozenset({"", "ALL", "(null)", "N/A"})


class NodeKind(NamedTuple):
    """Nodes that are alike, and how many there are. `gres` counts generic resources by name, and again by name and
    type: `gpu:a100`."""

    number: int
    cpus: int
    memory_mb: int
    gres: Mapping[str, int]
    features: frozenset[str]


class Partition(NamedTuple):
    """A partition. Its limits are None where there are none; `state` is `up`, `down`, `drain` or `inactive`. The nodes
    have as many cores and as much memory as its jobs may use of them. `hides_nodes`: it has more than Slurm shows,
    such as those of a cloud that are not powered up."""

    name: str
    is_default: bool
    state: str
    limit_sec: float | None
    nodes: tuple[NodeKind, ...]
    most_nodes: int | None = None
    no_accounts: frozenset[str] = frozenset()
    qos: frozenset[str] = frozenset()
    no_qos: frozenset[str] = frozenset()
    needs_reservation: bool = False
    only_root: bool = False
    hides_nodes: bool = False

    @property
    def node_count(self) -> int:
        return sum(kind.number for kind in self.nodes)


def read(site: SlurmSite) -> dict[str, Partition]:
    """The partitions by name. SlurmError; SlurmSilent."""
    rows = commands.run(site, "sinfo", "--noheader", "--all", "--exact", "--noconvert", f"--format={_FORMAT}")
    limits = commands.run(site, "scontrol", "--oneliner", "--all", "show", "partition")
    return parse(rows, limits)


def settings(site: SlurmSite) -> dict[str, str]:
    """Slurm's configuration. SlurmError; SlurmSilent."""
    said = commands.run(site, "scontrol", "show", "config", patience_sec=_SETTINGS_SEC)
    return {name: value.strip() for name, value in _SETTING.findall(said)}


def parse(rows: str, limits: str) -> dict[str, Partition]:
    """The partitions in the output of the two commands. Lines that are not understood are left out."""
    found: dict[str, Partition] = {}
    for line in rows.splitlines():
        fields = line.strip().split("|")
        if len(fields) != 8:
            continue
        name, state, limit, *node = fields
        known = found.get(name.rstrip("*")) or Partition(
            name.rstrip("*"), name.endswith("*"), state, clock.seconds(limit), ()
        )
        found[known.name] = known._replace(nodes=(*known.nodes, *_kind(node)))
    for line in limits.splitlines():
        facts = dict(_PAIR.findall(line))
        if partition := found.get(facts.get("PartitionName", "")):
            found[partition.name] = _limited(partition, facts)
    return found


def _limited(partition: Partition, facts: Mapping[str, str]) -> Partition:
    # AllowAccounts is not looked at: since Slurm 24.11 it stands for all accounts below these, too.
    return partition._replace(
        most_nodes=_limit(facts, "MaxNodes"),
        nodes=tuple(_usable(kind, facts) for kind in partition.nodes),
        no_accounts=_names(facts.get("DenyAccounts")),
        qos=_names(facts.get("AllowQos")),
        no_qos=_names(facts.get("DenyQos")),
        needs_reservation=facts.get("ReqResv") == "YES",
        only_root=facts.get("RootOnly") == "YES",
        hides_nodes=(_limit(facts, "TotalNodes") or 0) > partition.node_count,
    )


def _usable(kind: NodeKind, facts: Mapping[str, str]) -> NodeKind:
    """What jobs of a partition may use of such nodes."""
    cpus, memory = _limit(facts, "MaxCPUsPerNode"), _limit(facts, "MaxMemPerNode")
    return kind._replace(
        cpus=kind.cpus if cpus is None else min(kind.cpus, cpus),
        memory_mb=kind.memory_mb if memory is None else min(kind.memory_mb, memory),
    )


def _limit(facts: Mapping[str, str], name: str) -> int | None:
    """A limit of a partition; None for `UNLIMITED`, or if there is none."""
    text = facts.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and int(text) else None


def _kind(fields: list[str]) -> Iterator[NodeKind]:
    count, cpus, memory, gres, features = fields
    numbers = [int(found[0]) if (found := _NUMBER.match(text)) else 0 for text in (count, cpus, memory)]
    if numbers[0]:
        yield NodeKind(numbers[0], numbers[1], numbers[2], _gres(gres), _names(features))


def _gres(text: str) -> dict[str, int]:
    """`gpu:a100:4(S:0-1),npu:8` in numbers."""
    found: dict[str, int] = {}
    for entry in _SOCKETS.sub("", text).split(","):
        name, *rest = entry.split(":")
        count = int(rest.pop()) if rest and rest[-1].isdigit() else 1
        for key in (name, *(f"{name}:{kind}" for kind in rest)) if name not in _NOBODY else ():
            found[key] = found.get(key, 0) + count
    return found


def _names(text: str | None) -> frozenset[str]:
    return frozenset() if text is None or text in _NOBODY else frozenset(text.split(","))
