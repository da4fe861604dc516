"""The images of a job: each is pulled once, by the first task that needs it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait

from kedge.contract import render_text
from kedge.engines.container.api.client import Client
from kedge.engines.container.api.engine_answers import EngineRefused, LocalImage
from kedge.engines.container.images import pinned_images
from kedge.engines.container.images.pulls import Pull
from kedge.plan.model import RolePlan

Say = Callable[[str], None]

PATIENCE_SEC = 60.0  # with a registry that sends nothing
_UNPACKING_SEC = 600.0  # unpacking may take long, and engines do not report its progress
_PROGRESS_SEC = 5.0  # between two messages about the progress
_MIB = 1 << 20
_OTHER = "The image on this machine is not the one in the lock file."
_ACCEPT = "Load the locked image, or accept the other one with --update-lock."
_INVALID_NAME = ("invalid reference format", "must be lowercase")  # in the errors of Docker and Podman


class ImageProblem(Exception):
    """The image does not exist, cannot be pulled, or does not run here: an error of the job. `cause`, one of
    diagnose/'s, is set if kedge knows it better than the text shows, `meaning` and `remedy` if kedge knows more than
    those of the cause."""

    def __init__(self, message: str, cause: str | None = None, meaning: str = "", remedy: str = "") -> None:
        super().__init__(message)
        self.cause, self.meaning, self.remedy = cause, meaning, remedy


class Cancelled(Exception):
    """The job was stopped before an image was there."""


class Images:
    """`secrets` are the values by key; `say` receives messages about pulls. Safe for several threads."""

    def __init__(
        self,
        client: Client,
        architecture: str,
        secrets: Mapping[str, str],
        say: Say,
        patience_sec: float = PATIENCE_SEC,
    ) -> None:
        self._client, self._architecture, self._secrets, self._say = client, architecture, secrets, say
        self._patience_sec = patience_sec
        self._guard = threading.Lock()
        self._pulls: dict[tuple[str, int], Future[LocalImage]] = {}
        # An engine takes 4 ms and more to describe an image, and all tasks of a role need the same one.
        self._here: dict[tuple[str, str | None, int], LocalImage] = {}
        self._cancelled: Future[None] = Future()

    def get(self, role: RolePlan, retry: int = 0) -> LocalImage:
        """The image of a role, pulled if necessary. A failed pull fails all tasks with the same `retry`, and an image
        that was there stays known to them. ImageProblem, Cancelled."""
        key = role.image, role.pin, retry
        found = self._here.get(key) or here(self._client, role) or self._pulled_once(role, retry)
        self._here[key] = found
        if found.architecture and found.architecture != self._architecture:
            raise ImageProblem(
                f"the image {role.image} is for {found.architecture}, but this machine is {self._architecture}",
                "container_failure",
                "The image was built for another kind of processor.",
                f"Use an image for {self._architecture} (docker manifest inspect NAME lists them), "
                f"or a {found.architecture} machine.",
            )
        return found

    def cancel(self) -> None:
        """Abort the current pulls, and pull nothing more."""
        with self._guard:
            if not self._cancelled.done():
                self._cancelled.set_result(None)

    def resume(self) -> None:
        """Allow pulls again, also of images that failed before, and look for images again."""
        with self._guard:
            self._pulls.clear()
            self._here.clear()
            if self._cancelled.done():
                self._cancelled = Future()

    def _pulled_once(self, role: RolePlan, retry: int) -> LocalImage:
        key = role.image, retry
        with self._guard:
            if self._cancelled.done():
                raise Cancelled
            is_first = key not in self._pulls
            pulled = self._pulls.setdefault(key, Future())
        if is_first:
            self._settle(key, pulled, role)
        return pulled.result()

    def _settle(self, key: tuple[str, int], pulled: Future[LocalImage], role: RolePlan) -> None:
        """Pull for all waiting tasks. Only a problem of the image itself is kept for later tasks."""
        try:
            pulled.set_result(self._pulled(role))
        except BaseException as error:
            pulled.set_exception(error)
            if isinstance(error, ImageProblem):
                return
        with self._guard:
            self._pulls.pop(key, None)

    def _pulled(self, role: RolePlan) -> LocalImage:
        if pinned_images.is_own(role):
            raise ImageProblem(pinned_images.missing(role), "container_failure", _OTHER, _ACCEPT)
        name = pinned_images.reference(role)
        self._say(f"pulling the image {name}")
        started = time.monotonic()
        pull = Pull(self._client, name, self._auth(role))
        pull.start()
        try:
            self._follow(pull, name)
        except EngineRefused as error:
            raise ImageProblem(f"the image {name} cannot be pulled: {error}") from error
        finally:
            pull.close()
        found = here(self._client, role)
        if found is None:
            raise ImageProblem(f"the image {name} was pulled but is missing: was it removed?")
        self._say(f"pulled the image {name} in {time.monotonic() - started:.1f} s")
        return found

    def _follow(self, pull: Pull, name: str) -> None:
        """Wait for the end of a pull, and report its progress."""
        cancelled, reported, silent_since = self._cancelled, time.monotonic(), 0.0
        while not pull.ended.done():
            wait((pull.ended, cancelled), min(1.0, self._patience_sec / 4), return_when=FIRST_COMPLETED)
            if cancelled.done():
                raise Cancelled
            now, limit = time.monotonic(), self._patience_sec
            if not pull.progress.waits_for_registry:
                limit = max(limit, _UNPACKING_SEC)
            if now - pull.moved > limit:
                raise ImageProblem(
                    f"the image {name} cannot be pulled: no progress for {limit:.0f} s. The registry does not answer, "
                    "or cannot be reached",
                    "network_transient",
                )
            if now - pull.moved > limit / 2 and silent_since != pull.moved:
                silent_since = pull.moved
                self._say(f"pulling the image {name}: no progress for {limit / 2:.0f} s; giving up at {limit:.0f} s")
            elif pull.progress.total and now - reported > _PROGRESS_SEC and pull.moved > reported:
                reported = now
                done, total = pull.progress.done // _MIB, pull.progress.total // _MIB
                self._say(f"pulling the image {name}: {done} of {total} MiB")
        pull.ended.result()

    def _auth(self, role: RolePlan) -> dict[str, str] | None:
        if not role.auth:
            return None
        values = {key: render_text(text, self._secrets) for key, text in role.auth.items()}
        known = {"username": "username", "password": "password", "registryuri": "serveraddress"}
        return {name: values[key] for key, name in known.items() if key in values}


def here(client: Client, role: RolePlan) -> LocalImage | None:
    """The image of a role, if it is on this machine. ImageProblem if it is not the pinned one."""
    found = _inspect(client, role.image)
    if found and role.pin and not pinned_images.fits(found, role.pin):
        raise ImageProblem(pinned_images.changed(role, found), "container_failure", _OTHER, _ACCEPT)
    return found or (_inspect(client, pinned_images.reference(role)) if role.pin else None)


def _inspect(client: Client, name: str) -> LocalImage | None:
    try:
        return client.image(name)
    except EngineRefused as error:
        if any(text in str(error) for text in _INVALID_NAME):
            raise ImageProblem(f"{name} is not a valid image name: {error}") from error
        raise
