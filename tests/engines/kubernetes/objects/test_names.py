from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.engines.kubernetes.objects import labels, names
from kedge.engines.kubernetes.objects.names import RunNames

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
NASTY = [
    "train", "Train", "TRAIN", "train_1", "train.1", "train-1", "9lives", "-", "_", "...", "a" * 200, "a" * 199 + "b",
    "ä", "ü", "x-", "-x", "a" * 40, "a" * 41, "kedge-9lives",
]  # fmt: skip


def is_label(text: str) -> bool:
    return len(text) <= 63 and LABEL.fullmatch(text) is not None


@pytest.mark.parametrize("run_id", NASTY)
def test_the_name_of_a_run_is_a_label_that_starts_with_a_letter(run_id: str) -> None:
    name = RunNames.of(run_id).name
    assert is_label(name)
    assert len(name) <= names.LONGEST_NAME
    assert name[0].isalpha()


def test_what_is_a_label_already_stays_as_it_is() -> None:
    assert RunNames.of("train-abc2345").name == "train-abc2345"
    assert RunNames.of("a" * 40).name == "a" * 40
    assert names.role_name("worker-2") == "worker-2"
    assert names.role_name("2nd") == "2nd"


def test_what_was_changed_has_a_hash() -> None:
    assert re.fullmatch(r"train-1-[0-9a-f]{8}", RunNames.of("Train_1").name)
    assert re.fullmatch(r"kedge-9lives-[0-9a-f]{8}", RunNames.of("9lives").name)
    assert re.fullmatch(r"a{31}-[0-9a-f]{8}", RunNames.of("a" * 41).name)
    assert re.fullmatch(r"kedge-[0-9a-f]{8}", RunNames.of("___").name)
    assert re.fullmatch(r"[0-9a-f]{8}", names.role_name("___"))


def test_different_ids_and_roles_have_different_names() -> None:
    assert len({RunNames.of(run_id).name for run_id in NASTY}) == len(NASTY)
    assert len({names.role_name(role) for role in NASTY}) == len(NASTY)


def test_roles_that_differ_only_in_case_have_different_objects() -> None:
    run = RunNames.of("train-abc2345")
    assert run.pod(0, "worker", 0) == "train-abc2345-a0-worker-0"
    assert run.pod(0, "Worker", 0) != run.pod(0, "worker", 0) != run.pod(0, "WORKER", 0)
    assert names.token_key("Worker", 0) != names.token_key("worker", 0)
    assert names.hostname("Worker", 0) != names.hostname("worker", 0)


def test_names_of_objects() -> None:
    run = RunNames.of("train-abc2345")
    assert run.anchor == run.service == run.lease == "train-abc2345"
    assert run.driver == run.driver_secret == "train-abc2345-driver"
    assert run.address == "train-abc2345-address"
    assert run.pull_secret == "train-abc2345-pull"
    assert run.log(3) == "train-abc2345-log-3"
    assert run.code(0) == "train-abc2345-code-0"
    assert run.tokens(2) == "train-abc2345-a2"
    assert run.pod(1, "worker", 3, 2) == "train-abc2345-a1-worker-3-t2"
    assert names.token_key("worker", 3) == names.hostname("worker", 3) == "worker-3"


def test_tasks_never_share_a_pod_or_a_host_name() -> None:
    run = RunNames.of("a" * 40)
    roles = ["w", "w-0", "w-0-t1", "W", "w" * 60, "w" * 59 + "v", "w" * 55, "w_0", "w" * 50, "w" * 51]
    attempts = list(itertools.product((0, 1, 12), roles, (0, 1, 10, 9999), (0, 1, 10)))
    pods = {run.pod(*attempt) for attempt in attempts}
    assert len(pods) == len(attempts)
    assert all(map(is_label, pods))
    hosts = {names.hostname(role, index) for role in roles for index in (0, 1, 10, 123456789)}
    assert len(hosts) == 4 * len(roles)
    assert all(map(is_label, hosts))


def test_a_long_name_of_a_pod_still_ends_with_its_task() -> None:
    pod = RunNames.of("a" * 40).pod(0, "parameter-server-of-the-first-kind", 12, 1)
    assert re.fullmatch(r"a{40}-a0-para-[0-9a-f]{8}-12-t1", pod)
    assert len(pod) <= 63


@given(st.text(min_size=1, max_size=300), st.integers(0, 10**9), st.integers(0, 10**6), st.integers(0, 10**6))
def test_every_name_is_a_label(text: str, index: int, job_attempt: int, task_attempt: int) -> None:
    run = RunNames.of(text)
    assert is_label(run.pod(job_attempt, text, index, task_attempt))
    assert is_label(names.hostname(text, index))
    assert is_label(run.tokens(job_attempt))
    assert is_label(names.token_key(text, index))


def test_labels_of_a_task_are_valid_values() -> None:
    found = labels.of_task(RunNames.of("A" * 99).name, names.role_name("B" * 99), 9999, 99, 99)
    assert all(is_label(value) for value in found.values())
    assert found.items() >= labels.of_run(RunNames.of("A" * 99).name).items()


def test_everything_but_the_anchor_is_owned_by_the_anchor() -> None:
    owner = labels.ObjectOwner("train-abc2345", "", "train-abc2345", "ada", "train")
    assert "ownerReferences" not in labels.metadata(owner, "train-abc2345", labels.ANCHOR)
    owned = labels.metadata(owner._replace(uid="u-1"), "train-abc2345-log-0", labels.LOG)
    (reference,) = owned["ownerReferences"]
    assert reference == {
        "apiVersion": "v1", "kind": "ConfigMap", "name": "train-abc2345", "uid": "u-1", "controller": True,
        "blockOwnerDeletion": False,
    }  # fmt: skip
    assert owned["annotations"] == {"kedge.io/run-id": "train-abc2345", "kedge.io/user": "ada", "kedge.io/job": "train"}
    assert owned["labels"]["kedge.io/component"] == "log"
