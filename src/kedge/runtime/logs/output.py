"""The user's two streams: each copied exactly to its own files, and both line by line to user-all."""

from __future__ import annotations

import os

from kedge import contract
from kedge.light.types import Callable
from kedge.own_files import Buffer
from kedge.runtime.files import Faults
from kedge.runtime.logs.combine import Combined
from kedge.runtime.logs.console import ConsoleCopy
from kedge.runtime.logs.mask import AT_ONCE, Finder, Mask
from kedge.runtime.logs.pipes import Pipe
from kedge.runtime.logs.rotate import RotatingFile
from kedge.runtime.process.loop import Loop


class UserStream:
    """Passes the pieces of one stream on to its files. Pieces without secrets are never copied in memory."""

    def __init__(self, file: RotatingFile, combined: Combined, mask: Mask | None, console: ConsoleCopy | None) -> None:
        self._file = file
        self._combined = combined
        self._mask = mask
        self._console = console

    def feed(self, data: bytearray, length: int) -> None:
        """Take the first `length` bytes of `data`."""
        if self._mask is None or self._mask.lets_pass(data, length):
            self._pass_on(data, length)
            return
        view = memoryview(data)[:length]
        for at in range(0, length, AT_ONCE):
            masked = self._mask.feed(bytes(view[at : at + AT_ONCE]))
            self._pass_on(masked, len(masked))

    def finish(self) -> None:
        """End of the stream."""
        if self._mask:
            rest = self._mask.finish()
            self._pass_on(rest, len(rest))
        self._combined.finish()

    def _pass_on(self, data: bytes | bytearray, length: int) -> None:
        piece: Buffer = memoryview(data)[:length]
        self._file.write([piece])
        self._combined.feed(data, length)
        if self._console:
            self._console.write(piece)


class UserLogs:
    """The three log folders of a task, and the pipes that the command writes to."""

    def __init__(
        self, folder: str, policy: contract.LogPolicy, faults: Faults, on_removed: Callable[[str, int], None]
    ) -> None:
        self._folder = folder
        self._faults = faults
        self._pipes: list[Pipe] = []
        self._before_stop: int | None = None
        self._files = {name: RotatingFile(f"{folder}/{name}", policy, faults, on_removed) for name in contract.STREAMS}

    @property
    def removed_bytes(self) -> dict[str, int]:
        """The bytes that rotation has deleted, by stream; streams that lost nothing are omitted."""
        return {name: file.removed_bytes for name, file in self._files.items() if file.removed_bytes}

    def mark_stop(self) -> None:
        """The task is asked to stop now: output after this point may be a result of the stop."""
        self._before_stop = self._files[contract.USER_ALL].written

    @property
    def bytes_after_stop(self) -> int:
        """Bytes written to user-all after the stop; 0 without a stop."""
        return 0 if self._before_stop is None else self._files[contract.USER_ALL].written - self._before_stop

    @property
    def open_pipes(self) -> list[Pipe]:
        """The pipes that some process still holds open."""
        return [pipe for pipe in self._pipes if pipe.open]

    def connect(
        self, loop: Loop, secrets: Finder | None, consoles: tuple[ConsoleCopy | None, ConsoleCopy | None]
    ) -> tuple[int, int]:
        """Make the pipes and return their writing ends, for stdout and stderr. The caller closes them."""
        return self._pipe(loop, contract.USER_STDOUT, secrets, consoles[0]), self._pipe(
            loop, contract.USER_STDERR, secrets, consoles[1]
        )

    def close_pipes(self) -> None:
        """Read what is left in the pipes and close them."""
        for pipe in self._pipes:
            pipe.close()

    def close(self) -> None:
        """End of the task: close the pipes and the files."""
        self.close_pipes()
        for file in self._files.values():
            file.close()

    def _pipe(self, loop: Loop, name: str, secrets: Finder | None, console: ConsoleCopy | None) -> int:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        combined = Combined(self._files[contract.USER_ALL], self._folder, self._faults)
        stream = UserStream(self._files[name], combined, Mask(secrets) if secrets else None, console)
        self._pipes.append(Pipe(loop, reader, stream.feed, stream.finish, console))
        return writer
