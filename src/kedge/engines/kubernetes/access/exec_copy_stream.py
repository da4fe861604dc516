"""`serve-run` in a pod, started through the API server."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from kedge.engines.kubernetes.api import KubernetesApi
from kedge.engines.kubernetes.transport.exec_stream import STDOUT
from kedge.errors import CannotRun
from kedge.terminal_text import one_line

_LONGEST = 2000  # characters of what it says about an error


class ExecCopyStream:
    """A CopyStream. `then` is closed after it."""

    def __init__(
        self, api: KubernetesApi, pod: str, container: str, argv: Sequence[str], then: ExitStack | None = None
    ) -> None:
        self._then = then or ExitStack()
        try:
            self._stream = api.exec(pod, container, argv, stdin=True)
        except BaseException:
            self._then.close()
            raise
        self._said = b""

    def read(self, timeout_sec: float) -> bytes | None:
        frame = self._stream.read(timeout_sec)
        if frame is None:
            code = self._stream.exit_code
            if code:
                said = one_line(self._said.decode(errors="replace").strip().rpartition("\n")[2])
                raise CannotRun(f"the run folder cannot be read in its pod: {said or f'exit code {code}'}")
            return None if code is None else b""
        if frame.channel == STDOUT:
            return frame.data
        self._said = (self._said + frame.data)[-_LONGEST:]
        return None

    def write(self, data: bytes) -> None:
        self._stream.write(data)

    def close(self) -> None:
        self._stream.close()
        self._then.close()
