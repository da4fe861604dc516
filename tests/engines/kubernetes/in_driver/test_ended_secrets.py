"""What is left of a seed when its job has ended."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

from kedge.engines.kubernetes.in_driver import ended_secrets

CLUSTER = ("cluster/orders.json", "cluster/secrets.json", "cluster/link.json", "./cluster/ssh.json")


def test_a_seed_keeps_its_options_and_loses_its_secrets(tmp_path: Path) -> None:
    orders = {"options": {"keep": "5s"}, "plan": {"secret": "xyzzy"}}
    seed = tmp_path / "seed.tar.gz"
    with tarfile.open(seed, "w:gz") as archive:
        for name in ("run.json", *CLUSTER):
            data = json.dumps(orders).encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    with tarfile.open(fileobj=io.BytesIO(ended_secrets.without_secrets(seed))) as bare:
        assert bare.getnames() == ["run.json", "cluster/orders.json"]
        kept = bare.extractfile("cluster/orders.json")
        assert kept
        assert json.load(kept) == {"options": {"keep": "5s"}}


def test_a_seed_that_cannot_be_read_becomes_an_empty_one(tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(ended_secrets.without_secrets(tmp_path / "none"))) as bare:
        assert bare.getnames() == ["cluster/orders.json"]
