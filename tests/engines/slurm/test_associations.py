"""Accounts that a user may use, with stand-ins that say what Slurm 22.05 says."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from kedge.engines.slurm import associations, checks, cluster_facts
from kedge.engines.slurm.associations import Association, Associations
from kedge.engines.slurm.commands import SlurmSite
from kedge.engines.slurm.options import SlurmOptions
from kedge.errors import CannotRun

from .jobs import planned, role

CONFIG = """\
Configuration data as of 2026-11-23T13:55:11
AccountingStorageBackupHost = (null)
AccountingStorageEnforce = {enforce}
AccountingStorageType   = accounting_storage/slurmdbd
ClusterName             = kedge-test
"""
OWN = "vision||high,normal\nspeech|gpu|normal\n"
FOUND = cluster_facts.parse(
    "main*|up|1:00:00|2|64|200000|(null)|(null)\ngpu|up|1:00:00|2|64|200000|(null)|(null)\n", ""
)
ADA = Associations("ada", tuple(associations.parse(OWN)), True)


@pytest.fixture
def site(tmp_path: Path) -> SlurmSite:
    says(tmp_path, "scontrol", CONFIG.format(enforce="associations,limits,qos"))
    says(tmp_path, "sacctmgr", OWN)
    return SlurmSite(str(tmp_path))


def says(folder: Path, program: str, text: str, code: int = 0) -> None:
    (folder / program).write_text(
        f"#!/bin/sh\necho \"$@\" > {folder}/{program}.args\ncat <<'END'\n{text}END\nexit {code}\n"
    )
    (folder / program).chmod(0o755)


def problem(own: Associations | None, **options: str) -> str:
    try:
        checks.check_facts(planned({"worker": role(1, 1, 10)}), SlurmOptions(**options), FOUND, own)  # type: ignore[arg-type]
    except CannotRun as error:
        return str(error)
    return ""


def test_what_this_user_has(site: SlurmSite, tmp_path: Path) -> None:
    found = associations.read(site)
    assert found
    assert found.known == (
        Association("vision", "", frozenset({"high", "normal"})),
        Association("speech", "gpu", frozenset({"normal"})),
    )
    assert found.with_qos
    asked = (tmp_path / "sacctmgr.args").read_text()
    assert f"user={pwd.getpwuid(os.getuid()).pw_name} cluster=kedge-test" in asked


@pytest.mark.parametrize(("enforce", "with_qos"), [("associations", False), ("associations,limits,qos,safe", True)])
def test_whether_the_qos_is_enforced(site: SlurmSite, tmp_path: Path, enforce: str, with_qos: bool) -> None:
    says(tmp_path, "scontrol", CONFIG.format(enforce=enforce))
    found = associations.read(site)
    assert found
    assert found.with_qos is with_qos


def test_nothing_is_known_where_nothing_is_enforced(site: SlurmSite, tmp_path: Path) -> None:
    says(tmp_path, "scontrol", CONFIG.format(enforce="none"))
    assert associations.read(site) is None
    assert not (tmp_path / "sacctmgr.args").exists()


def test_accounting_that_does_not_answer_keeps_no_job_back(site: SlurmSite, tmp_path: Path) -> None:
    says(tmp_path, "sacctmgr", "sacctmgr: error: Problem talking to the database: Connection refused\n", 1)
    assert associations.read(site) is None
    (tmp_path / "sacctmgr").unlink()
    assert associations.read(site) is None


@pytest.mark.parametrize(
    "options",
    [
        {}, {"account": "vision"}, {"account": "Vision", "qos": "high"}, {"qos": "high"},
        {"account": "speech", "partition": "gpu"}, {"account": "speech", "partition": "main,gpu"},
    ],
)  # fmt: skip
def test_what_a_user_may_use(options: dict[str, str]) -> None:
    assert problem(ADA, **options) == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"account": "visoin"}, "ada may not use the account 'visoin'; did you mean 'vision'?"),
        ({"account": "x"}, "ada may not use the account 'x'; there is only vision"),
        ({"account": "speech"}, "ada may use the account 'speech' in gpu, not in the partition main"),
        ({"qos": "hihg"}, "ada may not use the qos 'hihg'; did you mean 'high'?"),
        (
            {"account": "speech", "qos": "high", "partition": "gpu"},
            "ada may not use the qos 'high' with the account 'speech'; there is only normal",
        ),
    ],
)
def test_what_a_user_may_not_use(options: dict[str, str], message: str) -> None:
    assert problem(ADA, **options) == message


def test_a_user_without_any_account() -> None:
    said = problem(Associations("bob", (), True), account="vision")
    assert said == "bob has no account on this cluster, so may not use 'vision': ask its administrator for one"


def test_a_qos_that_is_not_enforced_or_not_listed() -> None:
    assert problem(ADA._replace(with_qos=False), qos="anything") == ""
    unlisted = tuple(each._replace(qos=frozenset()) for each in ADA.known)
    assert problem(ADA._replace(known=unlisted), qos="anything") == ""
