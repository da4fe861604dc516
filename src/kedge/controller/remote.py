"""The controller of a run in a cluster, as its submitter sees it: the same calls as for a process of this machine."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from kedge.controller.client import End
from kedge.engines.base import Engine
from kedge.link.keys import LinkKeys
from kedge.plan.model import Plan
from kedge.resolve.model import Secrets
from kedge.runs.controller_lock import ControllerLock
from kedge.runs.folder import Run
from kedge.runs.liveness import is_controlled

_LOOK_SEC = 0.2  # between two looks at the run; a request to stop waits no longer


class RemoteController:
    """Hands a run over to a cluster. It keeps the run's lock until the cluster has it, so that the run never looks lost
    in between. Nothing of it stays on this machine. `say` tells the user what takes long."""

    outlives_terminal = True

    def __init__(self, run: Run, lock: ControllerLock, where: Engine, plan: Plan, keys: LinkKeys) -> None:
        self._run, self._lock, self._where, self._plan, self._keys = run, lock, where, plan, keys
        self._requests: deque[int] = deque()
        self.say: Callable[[str], object] = lambda text: None

    def order(self, engine: str, options: Mapping[str, Any], plan: Mapping[str, Any], secrets: Secrets) -> None:
        """Write its orders and submit the run. From now on it runs even if this process ends. CannotRun: the cluster
        refuses it."""
        files = self._run.cluster
        files.make()
        files.write(files.orders, {"engine": engine, "options": dict(options), "plan": plan})
        files.write(files.secrets, {"document": secrets.document, "texts": dict(secrets.texts)})
        files.write(files.link, self._keys.to_json())
        self._where.submit(self._run, self._plan, self.say)
        self._lock.close()

    def started(self) -> End | None:
        """None: the cluster has the run. Requests to stop that came meanwhile are forwarded."""
        self._forward()
        return None

    def wait(self) -> End | None:
        """Wait until it has ended. How is in the run's files, so the answer is None."""
        while is_controlled(self._run):
            self._forward()
            time.sleep(_LOOK_SEC)
        return None

    def signal(self, number: int) -> None:
        """Forward a request to stop: later, because this may interrupt anything."""
        self._requests.append(number)

    def _forward(self) -> None:
        while self._requests:
            self._where.forward(self._run, self._requests.popleft())

    def abandon(self) -> None:
        """The run is not submitted."""
        self.close()

    def close(self) -> None:
        """Release what this process holds; the run continues."""
        self._lock.close()
