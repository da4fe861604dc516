"""The driver's end of the link, through which the agents of tasks can fetch the job's code."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kedge.engines.base import Task
from kedge.engines.cluster.link_server import LinkServer
from kedge.engines.cluster.link_updates import LinkUpdate, Message
from kedge.link import messages
from kedge.plan.model import Plan

_PIECE = 256 << 10  # bytes; each agent has at most one on its way, which is kept until the next


class CodeServer(LinkServer):
    """Offers the code to each agent before it gets its ports, if there is an archive of it."""

    _archive: Path | None = None
    _offers: Mapping[str, Mapping[str, Any]] = {}

    def offer(self, archive: Path, plan: Plan) -> None:
        """From now on the agents of roles with code fetch it from this archive."""
        self._archive = archive
        self._offers = {role.name: {"name": role.code, "shared": plan.shares_code} for role in plan.roles if role.code}

    def send(self, task: Task, kind: str, header: dict[str, Any], body: bytes = b"") -> bool:
        if kind == messages.RESERVE and task.role in self._offers:
            header = {**header, "code": self._offers[task.role]}
        return super().send(task, kind, header, body)

    def poll(self) -> list[LinkUpdate]:
        others = []
        for update in super().poll():
            if self._archive and isinstance(update, Message) and update.kind == messages.CODE_WANTED:
                self._answer(update.task, update.header.get("offset"), self._archive)
            else:
                others.append(update)
        return others

    def _answer(self, task: Task, offset: Any, archive: Path) -> None:
        if type(offset) is not int or offset < 0:
            return
        try:
            with archive.open("rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                body = os.pread(file.fileno(), _PIECE, offset)
        except OSError:  # the agent asks again when the task is tried again
            return
        self.send(task, messages.CODE, {"offset": offset, "size": size}, body)
