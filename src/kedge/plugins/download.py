"""The download plugin: files are there before the task's command starts. Items of type data with a `sha256` or a `path`
use it by themselves. The runtime does it: with checks, resumption, retries and a cache for all tasks of a machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kedge.contract import TASK_STARTS, Action, Callback, Text
from kedge.plugins.base import DOWNLOAD, Steps, action_value
from kedge.plugins.parameters import Parameter, ParameterError, Wrong, boolean, list_of, string, text

_SHA256 = re.compile(r"[0-9a-f]{64}")


def sha256(value: object) -> str:
    """The reader of a SHA-256 in hex."""
    digest = string(value).lower().removeprefix("sha256:")
    if not _SHA256.fullmatch(digest):
        raise ParameterError(f"must be a SHA-256: 64 hex digits, not {len(digest)} characters like {digest[:12]!r}")
    return digest


class Download:
    """Each `uri` to `path`. With several of them `path` is a folder, and `sha256` a list of as many."""

    parameters = (
        Parameter("uri", list_of(text, or_one=True), "where it is, one address or several", required=True),
        Parameter("sha256", list_of(sha256, or_one=True), "the SHA-256 of each file, in hex", default=()),
        Parameter("path", string, "where it goes; a folder if it ends with '/', or if there are several addresses"),
        Parameter("unpack", boolean, "whether archives are unpacked", default=True),
    )

    def steps(self, values: Mapping[str, Any]) -> Steps:
        uris, digests, path = values["uri"], values["sha256"], values["path"]
        if not uris or not all(uris):
            raise ParameterError(Wrong("must not be empty", ("uri",)))
        if digests and len(digests) != len(uris):
            message = f"has {len(digests)} entries for {len(uris)} addresses; give one for each, in the order of 'uri'"
            raise ParameterError(Wrong(message, ("sha256",)))
        if path and len(uris) > 1:
            path = path.rstrip("/") + "/"
        each = zip(uris, digests or [None] * len(uris), strict=True)
        return Steps(tuple(_callback(uri, digest, path, values["unpack"]) for uri, digest in each))


def _callback(uri: Text, digest: str | None, path: str | None, unpack: bool) -> Callback:
    said = {"uri": action_value(uri), "sha256": digest, "path": path, "unpack": unpack}
    parameters = {key: value for key, value in said.items() if value is not None}
    return Callback(TASK_STARTS, action=Action(DOWNLOAD, parameters))
