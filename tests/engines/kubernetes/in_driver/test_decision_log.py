"""The decision log: what is recorded outlives the driver's node, and only one driver records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kedge.engines.kubernetes.access.folder_scan import FolderScan
from kedge.engines.kubernetes.in_driver import decision_log
from kedge.engines.kubernetes.in_driver.decision_log import DecisionLog
from kedge.engines.kubernetes.in_driver.log_pieces import KEY, LogPieces
from kedge.engines.kubernetes.objects import labels
from kedge.engines.kubernetes.objects.labels import ObjectOwner
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.engines.kubernetes.recorded_events import recorded
from kedge.runs import events
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent

from .memory_api import Left, MemoryApi, Unreachable, leaves

NAMES, OWNER = RunNames.of("j-1"), ObjectOwner("j-1", "uid", "j-1", "me", "j")


class FreeLease:
    """Nobody else wants it."""

    def check(self) -> None:
        return


@pytest.fixture(autouse=True)
def waits_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "_FIRST_WAIT_SEC", 0.001)


@pytest.fixture
def api() -> MemoryApi:
    return MemoryApi()


def made(api: MemoryApi, folder: Path, largest: int = 1000) -> DecisionLog:
    run = Run(folder)
    run.path.mkdir(exist_ok=True)
    pieces = LogPieces(api, "j-1", lambda number: labels.metadata(OWNER, NAMES.log(number), labels.LOG))  # type: ignore[arg-type]
    log = DecisionLog(pieces, run, FreeLease(), leaves, largest)  # type: ignore[arg-type]
    log.restore()
    return log


def texts(api: MemoryApi) -> list[str]:
    return [api.objects["ConfigMap", NAMES.log(number)]["data"][KEY] for number in range(len(api.objects))]


def names(folder: Path) -> list[str]:
    return [event["event"] for event in events.read(folder / "events.jsonl")]


def test_events_are_in_both_places(api: MemoryApi, tmp_path: Path) -> None:
    log = made(api, tmp_path / "a")
    with log.open()[0] as here:
        here.append(JobEvent.NOTE, text="one")
        assert log.pending
        assert not api.objects, "one write for all of a turn"
        here.append(JobEvent.NOTE, text="two")
        log.flush()
    assert "".join(texts(api)) == (tmp_path / "a" / "events.jsonl").read_text()
    assert api.calls.count("create") == 1
    assert api.objects["ConfigMap", "j-1-log-0"]["metadata"]["ownerReferences"][0]["uid"] == "uid"


def test_how_much_of_the_events_is_recorded_is_told(api: MemoryApi, tmp_path: Path) -> None:
    """Whoever follows the job sees no event that another driver would not have."""
    folder = tmp_path / "a"
    log = made(api, folder)
    assert recorded(str(folder)) == 0
    with log.open()[0] as here:
        here.append(JobEvent.NOTE, text="one")
        log.flush()
        one = (folder / "events.jsonl").stat().st_size
        here.append(JobEvent.NOTE, text="two")
        assert recorded(str(folder)) == one == FolderScan(str(folder), lambda path: True).look()["events.jsonl"].size
        log.created("j-1-a0-w-0")
        log.flush()
        assert recorded(str(folder)) == (folder / "events.jsonl").stat().st_size > one
    made(api, tmp_path / "b")
    assert recorded(str(tmp_path / "b")) == recorded(str(folder))


def test_what_decides_is_written_at_once(api: MemoryApi, tmp_path: Path) -> None:
    with made(api, tmp_path / "a").open()[0] as here:
        here.append(JobEvent.JOB_COMPLETED, sync=True)
    assert JobEvent.JOB_COMPLETED in texts(api)[0]


def test_what_the_submitter_has_recorded_is_there_too(api: MemoryApi, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    with events.EventLog(folder / "events.jsonl") as here:
        here.append(JobEvent.JOB_SUBMITTED)
    made(api, folder)
    assert JobEvent.JOB_SUBMITTED in texts(api)[0]


def test_a_driver_on_another_node_goes_on_where_the_first_one_ended(api: MemoryApi, tmp_path: Path) -> None:
    """It has the folder of the submitter; the log has many pieces, and lines that are longer than one."""
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "events.jsonl").write_text('{"event": "job-submitted"}\n')
    log = made(api, tmp_path / "a")
    with log.open()[0] as here:
        for number in range(30):
            here.append(JobEvent.NOTE, text=f"{number} {'x' * (2500 if number == 11 else 100)}")
            if number % 3 == 0:
                log.flush()
        log.flush()
    assert [text.count("\n") for text in texts(api) if len(text) > 1000] == [1]
    assert len(texts(api)) > 4
    other = made(api, tmp_path / "b")
    assert (tmp_path / "b" / "events.jsonl").read_bytes() == (tmp_path / "a" / "events.jsonl").read_bytes()
    with other.open()[0] as here:
        here.append(JobEvent.NOTE, text="more")
    other.flush()
    made(api, tmp_path / "c")
    assert (tmp_path / "c" / "events.jsonl").read_bytes() == (tmp_path / "b" / "events.jsonl").read_bytes()


def test_what_was_not_written_before_a_restart_is_written_then(api: MemoryApi, tmp_path: Path) -> None:
    log = made(api, tmp_path / "a")
    with log.open()[0] as here:
        here.append(JobEvent.NOTE, text="one")
        log.flush()
        here.append(JobEvent.NOTE, text="two")
    made(api, tmp_path / "a")
    assert "".join(texts(api)) == (tmp_path / "a" / "events.jsonl").read_text()
    assert names(tmp_path / "a") == [JobEvent.NOTE] * 2


def test_a_driver_that_others_have_replaced_meanwhile_forgets_what_it_alone_knew(
    api: MemoryApi, tmp_path: Path
) -> None:
    first = made(api, tmp_path / "a")
    with first.open()[0] as here:
        here.append(JobEvent.NOTE, text="one")
        first.flush()
        here.append(JobEvent.NOTE, text="never written")
    second = made(api, tmp_path / "b")
    with second.open()[0] as here:
        here.append(JobEvent.JOB_COMPLETED, sync=True)
    made(api, tmp_path / "a")
    assert names(tmp_path / "a") == [JobEvent.NOTE, JobEvent.JOB_COMPLETED]


@pytest.mark.parametrize("one_is_there", [True, False])
def test_the_second_of_two_drivers_to_write_leaves(api: MemoryApi, tmp_path: Path, one_is_there: bool) -> None:
    if one_is_there:
        made(api, tmp_path / "z").add("{}\n")
        made(api, tmp_path / "y").flush()
    first, second = made(api, tmp_path / "a"), made(api, tmp_path / "b")
    first.add('{"event": "of the first"}\n')
    first.flush()
    second.add('{"event": "of the second"}\n')
    with pytest.raises(Left, match="another driver has written"):
        second.flush()
    assert "of the second" not in "".join(texts(api))


def test_lost_answers_change_nothing(api: MemoryApi, tmp_path: Path) -> None:
    log = made(api, tmp_path / "a", largest=300)
    for number in range(20):
        api.before, api.after = Unreachable(number % 3), Unreachable((number + 1) % 3)
        log.add(json.dumps({"event": "note", "number": number}) + "\n")
        log.flush()
    api.before = api.after = lambda method: None
    assert [json.loads(line)["number"] for line in "".join(texts(api)).splitlines()] == [*range(20)]


def test_a_change_of_the_object_that_is_not_of_the_log_is_no_other_driver(api: MemoryApi, tmp_path: Path) -> None:
    log = made(api, tmp_path / "a")
    log.add("{}\n")
    log.flush()
    found = api.get("ConfigMap", "j-1-log-0")
    assert found
    found["metadata"]["labels"]["site"] = "x"
    api.replace(found)
    log.add("{}\n")
    log.flush()
    assert texts(api) == ["{}\n{}\n"]


def test_a_log_that_was_deleted_ends_the_driver(api: MemoryApi, tmp_path: Path) -> None:
    log = made(api, tmp_path / "a")
    log.add("{}\n")
    log.flush()
    api.objects.clear()
    log.add("{}\n")
    with pytest.raises(Left, match="was deleted"):
        log.flush()


def test_files_come_with_the_log_and_are_no_events(api: MemoryApi, tmp_path: Path) -> None:
    first = made(api, tmp_path / "a")
    with first.open()[0] as here:
        here.append(JobEvent.NOTE, text="one")
        first.keep("attempt-0/w-0/report.json", {"exit_code": 0})
        first.keep("../outside", 1)
        first.keep("attempt-0/w-0/report.json", {"exit_code": 1})
        here.append(JobEvent.NOTE, text="two")
        first.flush()
    made(api, tmp_path / "b")
    assert names(tmp_path / "b") == [JobEvent.NOTE] * 2
    found: Any = json.loads((tmp_path / "b" / "attempt-0" / "w-0" / "report.json").read_text())
    assert found == {"exit_code": 1}
    assert not (tmp_path / "outside").exists()
    made(api, tmp_path / "a")
    assert names(tmp_path / "a") == [JobEvent.NOTE] * 2, "the first one goes on with its own"


def test_a_line_that_is_longer_than_a_piece_is_written_at_once(api: MemoryApi, tmp_path: Path) -> None:
    """A driver that is killed between two writes would leave a part of it."""
    log = made(api, tmp_path / "a")
    with log.open()[0] as here:
        for length in (10, 5000, 20):
            here.append(JobEvent.NOTE, text="x" * length)
        log.flush()
        here.append(JobEvent.NOTE, text="last")
        log.flush()
    assert all(text.endswith("\n") for text in texts(api))
    assert max(map(len, texts(api))) > 5000
    assert "".join(texts(api)) == (tmp_path / "a" / "events.jsonl").read_text()
