"""The pipe of the supervisors' events, which tasks can write to as well."""

from __future__ import annotations

import os
import selectors
from pathlib import Path

from kedge.engines.container.rendering.render import STATUS
from kedge.engines.container.status_pipe import StatusPipe


def test_whole_lines_of_json_are_events(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / STATUS)
    with selectors.DefaultSelector() as selector:
        pipe = StatusPipe(selector)
        assert list(pipe.events()) == []
        pipe.open(tmp_path)
        with open(tmp_path / STATUS, "wb", buffering=0) as supervisor:
            assert selector.select(0) == []
            supervisor.write(b'{"event": "a"}\nno json\n{"event": ')
            assert selector.select(0)
            assert list(pipe.events()) == [{"event": "a"}]
            supervisor.write(b'"b"}\n')
            assert list(pipe.events()) == [{"event": "b"}]
        assert selector.select(0) == []  # no end of file when the last writer has gone
        pipe.close()
        assert list(pipe.events()) == []
        pipe.close()


def test_what_an_attempt_left_unfinished_is_not_read_with_the_next(tmp_path: Path) -> None:
    with selectors.DefaultSelector() as selector:
        pipe = StatusPipe(selector)
        for name, text in (("0", b'{"event": '), ("1", b'{"event": "b"}\n')):
            (tmp_path / name).mkdir()
            os.mkfifo(tmp_path / name / STATUS)
            pipe.open(tmp_path / name)
            with open(tmp_path / name / STATUS, "wb", buffering=0) as supervisor:
                supervisor.write(text)
                found = list(pipe.events())
            pipe.close()
        assert found == [{"event": "b"}]
