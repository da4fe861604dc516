"""The images of a job: each pulled once, by whoever needs it first."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait

from kedge.contract import render_text
from kedge.engines.container.client import Client, Image, Pulling, Refused
from kedge.plan.model import RolePlan

Say = Callable[[str], None]

_EVERY_SEC = 5.0  # between two words about the progress
_MIB = 1 << 20
_NO_NAME = ("invalid reference format", "must be lowercase")  # as Docker and Podman say


class ImageProblem(Exception):
    """The image is not there, may not be had, or does not run here: the job's error."""


class Cancelled(Exception):
    """The job was told to stop while an image was pulled."""


class Images:
    """`secrets` are the values by key; `say` hears what is being pulled. For use by several threads."""

    def __init__(self, client: Client, architecture: str, secrets: Mapping[str, str], say: Say) -> None:
        self._client, self._architecture, self._secrets, self._say = client, architecture, secrets, say
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._cancelled: Future[None] = Future()

    def get(self, role: RolePlan) -> Image:
        """The image of a role, pulled if it is not here. ImageProblem, Cancelled."""
        with self._locks[role.image]:
            found = self._here(role.image) or self._pulled(role)
        if found.architecture and found.architecture != self._architecture:
            raise ImageProblem(
                f"the image {role.image} is for {found.architecture} and this machine is {self._architecture}: "
                "exec format error"
            )
        return found

    def cancel(self) -> None:
        """Give up what is being pulled."""
        if not self._cancelled.done():
            self._cancelled.set_result(None)

    def resume(self) -> None:
        """Pull again what is needed."""
        if self._cancelled.done():
            self._cancelled = Future()

    def _here(self, name: str) -> Image | None:
        try:
            return self._client.image(name)
        except Refused as error:
            if any(words in str(error) for words in _NO_NAME):
                raise ImageProblem(f"{name} is not the name of an image: {error}") from error
            raise

    def _pulled(self, role: RolePlan) -> Image:
        self._say(f"pulling the image {role.image}")
        started = time.monotonic()
        try:
            self._pull(role)
        except Refused as error:
            raise ImageProblem(f"the image {role.image} cannot be pulled: {error}") from error
        found = self._client.image(role.image)
        if found is None:
            raise ImageProblem(f"the image {role.image} was pulled and is not there: was it removed?")
        self._say(f"pulled the image {role.image} in {time.monotonic() - started:.1f} s")
        return found

    def _pull(self, role: RolePlan) -> None:
        """In a thread of its own, which is left alone when the job is to stop: a registry may not answer for ever."""
        cancelled, pulled = self._cancelled, Future[None]()

        def pull() -> None:
            try:
                self._client.pull(role.image, self._auth(role), self._progress(role.image))
                pulled.set_result(None)
            except BaseException as error:
                pulled.set_exception(error)

        threading.Thread(target=pull, name="pull", daemon=True).start()
        wait((pulled, cancelled), return_when=FIRST_COMPLETED)
        if not pulled.done():
            raise Cancelled
        pulled.result()

    def _progress(self, name: str) -> Callable[[Pulling], None]:
        due = time.monotonic() + _EVERY_SEC

        def progress(now: Pulling) -> None:
            nonlocal due
            if now.total and time.monotonic() > due:
                due = time.monotonic() + _EVERY_SEC
                self._say(f"pulling the image {name}: {now.done // _MIB} of {now.total // _MIB} MiB")

        return progress

    def _auth(self, role: RolePlan) -> dict[str, str] | None:
        if not role.auth:
            return None
        values = {key: render_text(text, self._secrets) for key, text in role.auth.items()}
        known = {"username": "username", "password": "password", "registryuri": "serveraddress"}
        return {name: values[key] for key, name in known.items() if key in values}
