"""Files of a task reach the controller over the link as they are, whatever happens meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.engines.cluster.link_rig import WORKER, Rig

from kedge.contract import LogPolicy
from kedge.engines.cluster import mirror_store
from kedge.engines.cluster.link_updates import Joined, Message
from kedge.engines.cluster.mirrored import MirroredTask
from kedge.link import messages, mirroring
from kedge.runtime.agent.mirror import LOOK_SEC, TaskMirror
from kedge.runtime.files import Faults
from kedge.runtime.logs.rotate import RotatingFile


class Mirroring:
    """A task's folder on its node, and the one that the controller has of it, connected by a link."""

    def __init__(self, tmp_path: Path, rig: Rig, port: int = 0, **options) -> None:
        self.node, self.run = tmp_path / "node", tmp_path / "run"
        for folder in (self.node, self.run):
            folder.mkdir(exist_ok=True)
        self.rig, self.port, self.options = rig, port, options
        self.seen = 0
        self.store = MirroredTask(self.run)
        self.link = self.mirror = None
        self.begin()

    def begin(self) -> None:
        """An agent begins."""
        self.rig.agents, self.rig.commands = [], []
        self.link = self.rig.agent(port=self.port)
        link, self.answers = self.link, 0
        self.mirror = TaskMirror(
            str(self.node), 0, lambda header, body: link.send(messages.FILE, header, body), lambda: link.room,
            now=self.rig.clock, **self.options,
        )  # fmt: skip

    def agent_dies(self) -> None:
        """And another one begins."""
        self.mirror.close()
        self.link.close()
        self.begin()

    def controller_dies(self, restart: bool = True) -> None:
        self.store.close()
        self.rig.restart()
        self.link.moved(["127.0.0.1"], self.rig.server.port)
        self.store = MirroredTask(self.run)

    def turn(self) -> None:
        self.mirror.poll()
        self.rig.turn()
        for update in self.rig.updates[self.seen :]:
            if isinstance(update, Message) and (answer := self.store.take(update.header, update.body)):
                self.rig.server.send(WORKER, messages.OFFSETS, answer)
        self.seen = len(self.rig.updates)
        for command in self.rig.commands[0][self.answers :]:
            self.mirror.offsets(command)
        self.answers = len(self.rig.commands[0])

    def look(self) -> None:
        """Until all that is there now has been sent and stored."""
        self.rig.clock.time += LOOK_SEC
        for _ in range(3000):
            self.turn()
            if not self.link.unacked and self.tree(self.node) == self.tree(self.run):
                return
        raise AssertionError({path: len(data) for path, data in self.tree(self.run).items()})

    def finish(self) -> None:
        self.mirror.finish()
        for _ in range(5000):
            self.turn()
            if self.mirror.done and not self.link.unacked:
                return
        raise AssertionError("it does not finish")

    def tree(self, folder: Path) -> dict[str, bytes]:
        """The files that are mirrored while the task runs."""
        paths = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
        return {path: (folder / path).read_bytes() for path in sorted(paths) if mirroring.is_log(path)}

    def close(self) -> None:
        self.mirror.close()
        self.store.close()


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    rig.close()


@pytest.fixture
def mirroring_of(tmp_path, rig):
    made = []

    def make(**options):
        made.append(Mirroring(tmp_path, rig, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


class Log:
    """A stream of the task, rotated every 4 KiB or so."""

    def __init__(self, folder: Path, kept: int = 2, stream: str = "user-all") -> None:
        self.time = 10**18
        policy = LogPolicy(file_bytes=4096, kept_files=kept)
        self.lines = 0
        self.file = RotatingFile(f"{folder}/{stream}", policy, Faults(), lambda *_: None, self._clock)

    def _clock(self) -> int:
        self.time += 10**9
        return self.time

    def print(self, lines: int) -> None:
        for _ in range(lines):
            self.lines += 1
            self.file.write([f"line {self.lines}: {'x' * 80}\n".encode()])


def test_logs_and_their_indexes_grow_and_rotate_as_on_the_node(mirroring_of):
    one = mirroring_of()
    log, other = Log(one.node), Log(one.node, kept=0, stream="user-stdout")
    for lines in (1, 3, 30, 5, 200, 1, 0, 40):
        log.print(lines)
        other.print(lines)
        one.look()
    stored = one.tree(one.run)
    assert len([path for path in stored if path.startswith("user-all/@")]) == 2
    assert len([path for path in stored if path.startswith("log-times/user-all/@")]) == 2
    assert [path for path in stored if path.startswith("user-stdout/")] == ["user-stdout/current"]


def test_a_reader_sees_at_every_moment_what_was_printed_up_to_some_byte(mirroring_of):
    """Also while files are renamed: no byte comes after one that was printed later, and none before its index."""
    one = mirroring_of()
    log = Log(one.node, kept=100)
    seen, take = [], one.store.take

    def look(header, body):
        answer = take(header, body)
        parts = {path: data for path, data in one.tree(one.run).items() if path.startswith("user-all")}
        seen.append(b"".join(parts[path] for path in sorted(parts)))  # "@" comes before "c"
        if header["do"] == "write" and body and header["path"] in parts:
            assert f"log-times/{header['path']}" in one.tree(one.run)
        return answer

    one.store.take = look
    for lines in (1, 30, 5, 200, 1, 40, 300):
        log.print(lines)
        one.look()
    whole = seen[-1]
    assert whole.count(b"\n") == log.lines
    assert all(whole.startswith(each) for each in seen)


def test_a_controller_that_dies_with_its_answer_is_asked_again(mirroring_of):
    """The first one has stored that it was asked, and nobody has got the answer."""
    one = mirroring_of()
    one.store.take({"do": "ask", "mirror": one.mirror._id, "op": 1, "task_attempt": 0}, b"")
    one.controller_dies()
    Log(one.node).print(3)
    one.look()


def test_only_appended_bytes_travel(mirroring_of):
    one = mirroring_of()
    log = Log(one.node)
    for _ in range(40):
        log.print(5)
        one.look()
    assert len(list((one.node / "user-all").iterdir())) == 3
    sent = sum(len(m.body) for m in one.rig.kinds(Message) if m.header.get("path", "").startswith("user-all"))
    assert sent == log.file.written


def test_records_and_replaced_files(mirroring_of):
    one = mirroring_of()
    for text in ("first", "a second report, which is longer", ""):
        new = one.node / "new"
        new.write_text(text)
        new.rename(one.node / "report.json")
        with (one.node / "events.jsonl").open("a") as events:
            events.write(text + "\n")
        one.look()
        assert (one.run / "report.json").read_text() == text
    (one.node / "report.json").unlink()
    one.look()
    assert not (one.run / "report.json").exists()


def test_a_file_that_becomes_shorter_is_sent_again(mirroring_of):
    one = mirroring_of()
    (one.node / "runtime.log").write_text("x" * 1000)
    one.look()
    (one.node / "runtime.log").write_text("yy")
    one.look()


def test_large_files_travel_in_pieces(mirroring_of):
    one = mirroring_of()
    (one.node / "user-all").mkdir()
    (one.node / "user-all" / "current").write_bytes(os.urandom(9 << 20))
    one.look()
    bodies = [len(update.body) for update in one.rig.kinds(Message)]
    assert max(bodies) == mirroring.PIECE


@pytest.mark.parametrize("at", range(2000, 12_000, 1311))
def test_cut_connections_change_nothing(mirroring_of, rig, at):
    proxy = rig.proxy()
    proxy.limits = [(at + 500 * n, float("inf")) for n in range(6)]
    one = mirroring_of(port=proxy.port)
    log = Log(one.node)
    for lines in (20, 30, 40):
        log.print(lines)
        one.look()
    assert len(rig.kinds(Joined)) > 1


@pytest.mark.parametrize("who", ["agent", "controller"])
@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 12, 20])
def test_whoever_dies_in_the_middle_goes_on_at_the_byte(mirroring_of, who, turns):
    """At any time, also while files are renamed and removed: what a death leaves is taken up."""
    one = mirroring_of()
    log = Log(one.node)
    log.print(30)
    one.look()
    for lines in (1, 10, 60, 200):
        log.print(lines)
        one.rig.clock.time += LOOK_SEC
        for _ in range(turns):
            one.turn()
        (one.agent_dies if who == "agent" else one.controller_dies)()
        log.print(1)
    one.look()
    log.print(100)
    one.look()


def test_an_agent_that_was_started_again_sends_only_what_is_missing(mirroring_of):
    one = mirroring_of()
    log = Log(one.node)
    log.print(35)
    one.look()
    one.agent_dies()
    before = sum(len(update.body) for update in one.rig.kinds(Message))
    log.print(20)  # it rotates meanwhile
    one.look()
    sent = [m for m in one.rig.kinds(Message) if m.header["do"] == mirroring.RENAME]
    assert {m.header["path"] for m in sent if not m.header["path"].startswith("log-times")} == {"user-all/current"}
    assert sum(len(update.body) for update in one.rig.kinds(Message)) - before < 3500


def test_outputs_come_at_the_end(mirroring_of):
    one = mirroring_of()
    out = one.node / "output"
    (out / "a" / "b").mkdir(parents=True)
    (out / "a" / "b" / "model.bin").write_bytes(os.urandom(700_000))
    (out / "empty").write_text("")
    (out / "ümlaut file").write_text("x")
    (out / "link").symlink_to("/etc/passwd")
    (out / "folder-link").symlink_to("/etc")
    (out / os.fsdecode(b"not-\xff-text")).write_text("no name that can be sent")
    os.mkfifo(out / "fifo")
    (one.node / "runtime.log").write_text("done")
    one.look()
    assert not (one.run / "output").exists()
    one.finish()
    assert one.store.complete
    assert "too large: 1 (24 bytes)" in one.store.missing
    assert sorted(path.name for path in (one.run / "output").rglob("*") if path.is_file()) == [
        "empty", "model.bin", "ümlaut file",
    ]  # fmt: skip
    assert (one.run / "output/a/b/model.bin").read_bytes() == (out / "a/b/model.bin").read_bytes()
    one.controller_dies()
    assert one.store.complete


def test_outputs_that_are_too_large_are_left_out_and_that_is_said(mirroring_of):
    one = mirroring_of(output_limit=1000)
    (one.node / "output").mkdir()
    for name, size in (("a", 600), ("b", 500), ("c", 400)):
        (one.node / "output" / name).write_bytes(b"x" * size)
    one.finish()
    assert sorted(path.name for path in (one.run / "output").iterdir()) == ["a", "c"]
    assert "too many or too large: 1 (500 bytes)" in one.store.missing


def test_what_a_task_puts_in_place_of_logs_is_not_read(mirroring_of, tmp_path):
    one = mirroring_of()
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (one.node / "report.json").symlink_to(secret)
    (one.node / "user-stdout").symlink_to(tmp_path)
    os.mkfifo(one.node / "events.jsonl")
    (one.node / "runtime.log").mkdir()
    (one.node / "user-all").mkdir()
    os.mkfifo(one.node / "user-all" / "current")
    (one.node / "user-all" / "@x.s").write_text("no log")
    (one.node / "user-stderr").mkdir()
    (one.node / "user-stderr" / "current").write_text("two names")
    os.link(one.node / "user-stderr" / "current", one.node / "user-stderr" / f"@{'0' * 24}.s")
    one.rig.clock.time += LOOK_SEC
    for _ in range(100):
        one.turn()
    one.rig.clock.time += LOOK_SEC
    for _ in range(100):
        one.turn()
    assert {path for path in one.tree(one.run) if not path.startswith("user-stderr")} == set()
    assert b"secret" not in b"".join(one.tree(one.run).values())
    assert len(one.mirror._files) <= 2


def store(tmp_path: Path, limit: int = 1 << 20) -> MirroredTask:
    (tmp_path / "attempt").mkdir(exist_ok=True)
    return MirroredTask(tmp_path / "attempt", limit)


@pytest.mark.parametrize(
    "path",
    [
        "", ".", "..", "/etc/x", "../x", "output", "output/", "output/../x", "output/../../x", "output/./x",
        "output//x",
        "output/a/../b", "/output/x", "output/\0", "output/" + "x" * 256, "output/" + "x/" * 40 + "x", "spec.json",
        "work/x", mirroring.MARK, "user-all", "user-all/x", "user-all/../x", "user-all/@../x.s", "user-all/@.s",
        f"user-all/@{'g' * 24}.s", f"user-all/@{'0' * 23}.s", f"user-all/@{'0' * 24}.s/x", "log-times/x",
        "log-times/../x", "output/\ud800", None, 1, ["output", "x"],
    ],
)  # fmt: skip
def test_no_name_leads_elsewhere(tmp_path, path):
    one = store(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    wrong = ({"do": "write", "offset": 0, "new": True}, {"do": "remove"}, {"do": "rename", "to": "runtime.log"})
    for number, more in enumerate(wrong, 1):
        assert one.take({"mirror": "a", "op": number, "path": path, **more}, b"data") is None
    one.take({"mirror": "a", "op": 4, "do": "write", "path": "runtime.log", "offset": 0, "new": True}, b"data")
    one.take({"mirror": "a", "op": 5, "do": "rename", "path": "runtime.log", "to": path}, b"")
    assert set(tmp_path.rglob("*")) - set(before) == {tmp_path / "attempt" / "runtime.log"}
    assert (tmp_path / "attempt" / "runtime.log").read_bytes() == b"data"
    one.close()


def test_links_in_the_run_folder_are_not_followed(tmp_path):
    one = store(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("keep")
    (tmp_path / "attempt" / "output").symlink_to(outside)
    (tmp_path / "attempt" / "runtime.log").symlink_to(outside / "x")
    for number, path in enumerate(("output/x", "output/new", "runtime.log"), 1):
        one.take({"mirror": "a", "op": number, "do": "write", "path": path, "offset": 0, "new": True}, b"data")
    assert [path.name for path in outside.iterdir()] == ["x"]
    assert (outside / "x").read_text() == "keep"
    assert "12 bytes were not stored: output/x: " in one.missing
    one.close()


def test_a_task_has_a_limit_that_outlives_the_controller(tmp_path):
    one = store(tmp_path, 1000)
    write = {"mirror": "a", "do": "write", "path": "runtime.log", "new": False}
    one.take({**write, "op": 1, "offset": 0}, b"x" * 900)
    one.close()
    one = store(tmp_path, 1000)
    one.take({**write, "op": 2, "offset": 900}, b"x" * 101)
    assert "101 bytes were not stored: runtime.log: the limit of a task is 0 MiB" in one.missing
    one.take({**write, "op": 3, "offset": 900}, b"x" * 100)
    one.take({**write, "op": 4, "path": "events.jsonl", "offset": 0}, b"x")
    assert one._store.dropped == 102
    one.take({"mirror": "a", "op": 5, "do": "remove", "path": "runtime.log"}, b"")
    one.take({**write, "op": 6, "path": "events.jsonl", "offset": 0}, b"x" * 1000)
    assert (tmp_path / "attempt" / "events.jsonl").stat().st_size == 1000
    one.close()


def test_what_was_not_stored_outlives_the_controller(tmp_path):
    one = store(tmp_path, 1000)
    write = {"mirror": "a", "do": "write", "path": "runtime.log", "offset": 0, "new": True}
    one.take({**write, "op": 1}, b"x" * 1001)
    one.take({"mirror": "a", "op": 2, "do": "end", "skipped_files": 0, "skipped_bytes": 0}, b"")
    one.close()
    one = store(tmp_path, 1000)
    assert one.complete, "the agent sends nothing again"
    assert one.missing == "1001 bytes were not stored by an earlier controller"
    one.close()


def test_no_name_makes_room_twice(tmp_path):
    one = store(tmp_path, 1000)
    write = {"do": "write", "path": "runtime.log", "offset": 0, "new": True}
    one.take({"mirror": "a", "op": 1, **write}, b"x" * 900)
    one.take({"mirror": "a", "op": 2, "do": "rename", "path": "runtime.log", "to": "runtime.log"}, b"")
    one.take({"mirror": "a", "op": 3, "do": "rename", "path": "error.json", "to": "runtime.log"}, b"")
    one.take({"mirror": "a", "op": 4, "do": "remove", "path": "events.jsonl"}, b"")
    one.take({"mirror": "a", "op": 5, **write, "path": "events.jsonl"}, b"x" * 101)
    assert "101 bytes were not stored" in one.missing
    one.close()


def test_there_are_not_too_many_logs(tmp_path, monkeypatch):
    monkeypatch.setattr(mirror_store, "_MOST_LOGS", 3)
    one = store(tmp_path)
    for number in range(5):
        path = f"user-all/@{number:024x}.s"
        one.take({"mirror": "a", "op": number, "do": "write", "path": path, "offset": 0, "new": True}, b"x")
    assert len(list((tmp_path / "attempt" / "user-all").iterdir())) == 3
    assert "there are too many files" in one.missing
    one.close()


def test_who_asks_again_and_again_gets_no_answer(tmp_path):
    one = store(tmp_path)
    answers = [one.take({"mirror": "a", "op": 1, "do": "ask", "task_attempt": 0}, b"") for _ in range(1000)]
    assert answers[0] == {"task_attempt": 0, "files": {}, "complete": False}
    assert sum(map(bool, answers)) == 100
    one.close()


@pytest.mark.parametrize("offset", [-1, 5, 1 << 70, "0", None, 0.0])
def test_no_offset_leaves_a_hole(tmp_path, offset):
    one = store(tmp_path)
    one.take({"mirror": "a", "op": 1, "do": "write", "path": "runtime.log", "offset": 0, "new": True}, b"data")
    one.take({"mirror": "a", "op": 2, "do": "write", "path": "runtime.log", "offset": offset, "new": False}, b"more")
    assert (tmp_path / "attempt" / "runtime.log").read_bytes() == b"data"
    one.close()


def test_a_message_that_came_before_changes_nothing(tmp_path):
    one = store(tmp_path)
    messages_ = [
        ({"do": "write", "path": "user-all/current", "offset": 0, "new": True}, b"old"),
        ({"do": "rename", "path": "user-all/current", "to": f"user-all/@{'0' * 24}.s"}, b""),
        ({"do": "write", "path": "user-all/current", "offset": 0, "new": True}, b"new"),
    ]
    for again in range(3):
        for number, (header, body) in enumerate(messages_, 1):
            one.take({"mirror": "a", "op": number, **header}, body)
        if again == 1:
            one.close()
            one = store(tmp_path)
    folder = tmp_path / "attempt" / "user-all"
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"current": "new", f"@{'0' * 24}.s": "old"}
    one.close()
