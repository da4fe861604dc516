"""The download plugin: fetches files before the task's command starts. It is implied for items of type data with a
`sha256` or a `path`. The runtime downloads, with checks, resumption, retries and one cache for all tasks of a machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kedge.contract import TASK_STARTS, Action, Callback, Text
from kedge.plugins.base import DOWNLOAD, Steps, action_value
from kedge.plugins.parameters import Parameter, ParameterError, Wrong, boolean, list_of, string, text

_SHA256 = re.compile(r"[0-9a-f]{64}")


def sha256(value: object) -> str:
    """Reads a SHA-256 in hex."""
    digest = string(value).lower().removeprefix("sha256:")
    if not _SHA256.fullmatch(digest):
        raise ParameterError(f"must be a SHA-256: 64 hex digits, not {len(digest)} characters like {digest[:12]!r}")
    return digest


class Download:
    """Downloads each `uri` to `path`. For several, `path` is a folder and `sha256` a list of the same length."""

    parameters = (
        Parameter("uri", list_of(text, or_one=True), "one address or several", required=True),
        Parameter("sha256", list_of(sha256, or_one=True), "the SHA-256 of each file, in hex", default=()),
        Parameter("path", string, "the target; a folder if it ends with '/' or if there are several addresses"),
        Parameter("unpack", boolean, "whether to unpack archives", default=True),
    )

    def steps(self, values: Mapping[str, Any]) -> Steps:
        uris, digests, path = values["uri"], values["sha256"], values["path"]
        if not uris or not all(uris):
            raise ParameterError(Wrong("must not be empty", ("uri",)))
        if digests and len(digests) != len(uris):
            message = f"has {len(digests)} entries for {len(uris)} addresses; write one for each, in the order of 'uri'"
            raise ParameterError(Wrong(message, ("sha256",)))
        if path and len(uris) > 1:
            path = path.rstrip("/") + "/"
        each = zip(uris, digests or [None] * len(uris), strict=True)
        return Steps(tuple(_callback(uri, digest, path, values["unpack"]) for uri, digest in each))


def _callback(uri: Text, digest: str | None, path: str | None, unpack: bool) -> Callback:
    values = {"uri": action_value(uri), "sha256": digest, "path": path, "unpack": unpack}
    parameters = {key: value for key, value in values.items() if value is not None}
    return Callback(TASK_STARTS, action=Action(DOWNLOAD, parameters))
