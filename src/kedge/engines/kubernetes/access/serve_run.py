"""Program in a pod that has a run folder: sends it, over its input and output, to the machine of the run's user.

    serve-run FOLDER

It ends with its input, or when it has heard nothing for a while: the other side says regularly that it is alive.
"""

from __future__ import annotations

import os
import select
import sys
import time

from kedge import untrusted
from kedge.engines.kubernetes.access import copy_rules
from kedge.engines.kubernetes.access.copy_rules import CopyOrder, KnownFile
from kedge.engines.kubernetes.access.copy_sender import CopySender
from kedge.light.contextlib import suppress
from kedge.light.types import Any, NoReturn, Sequence
from kedge.link import frames
from kedge.link.frames import BadFrame, FrameReader, LinkFrame
from kedge.own_files import write_all

_INPUT, _OUTPUT = 0, 1
_BLOCK = 1 << 16
_LOOK_SEC = 0.15  # between two looks at the folder, at least
_SHARE = 4  # between two looks as many times as long as a look takes, so that a large job is not slowed down
_LONGEST_LOOK_SEC = 3.0
_LARGEST_RUN = 8 << 20
_COPY_ID, _LARGEST = "cluster/copy-id", 256
_MADE_SEC = 20.0  # how long a driver may need for making the folder, which another one may control until then


def launch() -> NoReturn:
    """Run the program and exit. A bundle starts here."""
    os._exit(main(sys.argv))


def main(argv: Sequence[str]) -> int:
    """Send the folder `argv[1]`. Returns the exit code."""
    if len(argv) != 2:
        print("usage: serve-run FOLDER", file=sys.stderr)
        return 2
    try:
        _Serving(argv[1]).run()
    except (BrokenPipeError, ConnectionError):
        return 0  # nobody wants it any more
    except (OSError, BadFrame) as error:
        with suppress(OSError):
            write_all(_OUTPUT, frames.encoded({"kind": copy_rules.FAILED, "text": str(error)}))
        return 1
    return 0


def copy_id(folder: str) -> str:
    """Which copy of a run folder this is: a name that is kept in it, so that inodes of another copy are not mistaken
    for those of this one. Empty if it cannot be kept."""
    with suppress(OSError):
        fd = os.open(f"{folder}/{_COPY_ID}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, os.urandom(12).hex().encode())
        finally:
            os.close(fd)
    with suppress(OSError):
        return untrusted.read(folder, _COPY_ID, _LARGEST).decode("ascii", "replace")
    return ""


class _Serving:
    """Serves one folder until the input ends."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._reader = FrameReader()
        self._reader.trust()
        self._heard = self._said = time.monotonic()
        self._open = True

    def run(self) -> None:
        self._wait_for_folder()
        if not self._open:
            return
        copy = copy_id(self._folder)
        self._send(copy_rules.COPY, copy=copy, run=self._run_file())
        found = self._asked()
        if found is None:
            return
        order, known = found
        sender = CopySender(self._folder, copy, order, known, self._send)
        self._synced(sender)
        while order.follow and self._open:
            began = time.monotonic()
            has_sent = sender.look()
            now = time.monotonic()
            if has_sent or now > self._said + copy_rules.QUIET_SEC:
                self._send(copy_rules.SYNCED, ended=sender.has_ended, outputs=sender.has_outputs)
            self._listen(max(_LOOK_SEC, min(_LONGEST_LOOK_SEC, (now - began) * _SHARE)))
            while self._reader.next():
                pass  # it is alive

    def _wait_for_folder(self) -> None:
        """Returns when it has been made, or the input has ended. FileNotFoundError: neither comes."""
        end = time.monotonic() + _MADE_SEC
        while self._open and not os.path.isdir(f"{self._folder}/{os.path.dirname(_COPY_ID)}"):
            if time.monotonic() > end:
                raise FileNotFoundError(f"{self._folder} has not been made yet")
            self._listen(_LOOK_SEC)

    def _run_file(self) -> Any:
        with suppress(OSError, ValueError):
            return untrusted.read_json(self._folder, "run.json", _LARGEST_RUN)
        return None

    def _synced(self, sender: CopySender) -> None:
        """Send all that is there. A second look shows what changed during a first one that took long."""
        sender.look()
        self._send(copy_rules.SYNCED, ended=sender.has_ended, outputs=sender.has_outputs)

    def _asked(self) -> tuple[CopyOrder, dict[str, KnownFile]] | None:
        """What is wanted and known; None if the input ended before that was said."""
        known: dict[str, KnownFile] = {}
        while self._open:
            while frame := self._reader.next():
                if frame.kind == copy_rules.START:
                    return _order(frame), known
                if frame.kind == copy_rules.KNOWN:
                    known |= {file.path: file for file in map(_known, frame.header["files"])}
            self._listen(copy_rules.QUIET_SEC)
        return None

    def _listen(self, wait_sec: float) -> None:
        """Take what comes within this time, at most once."""
        ready, _, _ = select.select([_INPUT], [], [], wait_sec)
        if ready:
            data = os.read(_INPUT, _BLOCK)
            self._heard = time.monotonic()
            self._reader.feed(data)
            self._open = bool(data)
        if time.monotonic() > self._heard + copy_rules.SILENCE_SEC:
            self._open = False

    def _send(self, kind: str, body: bytes = b"", **header: Any) -> None:
        self._said = time.monotonic()
        write_all(_OUTPUT, frames.encoded({"kind": kind, **header}, body))


def _order(frame: LinkFrame) -> CopyOrder:
    header = frame.header
    outputs = tuple(map(str, header["outputs"]))
    wanted = bool(header["records"]), bool(header["logs"])
    return CopyOrder(str(header["copy"]), *wanted, outputs, bool(header["follow"]))


def _known(values: Any) -> KnownFile:
    path, inode, size, time_ns, print_, head = values
    return KnownFile(str(path), int(inode), int(size), int(time_ns), str(print_), str(head))


if __name__ == "__main__":
    sys.exit(main(sys.argv))
