"""Credentials that a program prints, as kubeconfig files name it (exec plugins)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kedge.engines.kubernetes.transport.endpoint import ClientCertificate, NotConfigured, bearer
from kedge.terminal_text import one_line

_GROUP = "client.authentication.k8s.io"
_MARGIN_SEC = 30.0  # before the end of a token
_PATIENCE_SEC = 120.0  # a person may have to log in


class ProgramProof:
    """What a program prints that the kubeconfig names (an exec plugin, such as those of clouds), until it ends."""

    def __init__(self, program: Mapping[str, Any], place: str, folder: str, others: dict[str, str]) -> None:
        self._program, self._place, self._folder, self._others = program, place, folder, others
        self._answer: dict[str, Any] = {}
        self._ends = float("-inf")  # by time.time()
        self._lock = threading.Lock()

    def headers(self, renew: bool = False) -> dict[str, str]:
        token = self._asked(renew).get("token")
        return self._others | (bearer(token) if isinstance(token, str) else {})

    def certificate(self) -> ClientCertificate | None:
        answer = self._asked(False)
        certificate, key = answer.get("clientCertificateData"), answer.get("clientKeyData")
        if isinstance(certificate, str) and isinstance(key, str):
            return ClientCertificate(certificate.encode(), key.encode())
        return None

    def _asked(self, renew: bool) -> dict[str, Any]:
        with self._lock:
            if renew or time.time() > self._ends - _MARGIN_SEC:
                self._answer = self._run()
                ends = self._answer.get("expirationTimestamp")
                self._ends = _seconds(ends) if isinstance(ends, str) else float("inf")
            return self._answer

    def _run(self) -> dict[str, Any]:
        version = str(self._program.get("apiVersion", ""))
        if version not in (f"{_GROUP}/v1", f"{_GROUP}/v1beta1", f"{_GROUP}/v1alpha1"):
            raise NotConfigured(f"{self._place}: exec: apiVersion {version!r} is not known")
        argv = [self._command(), *map(str, self._program.get("args") or ())]
        try:
            done = subprocess.run(
                argv, env=self._environment(version), stdout=subprocess.PIPE, timeout=_PATIENCE_SEC, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            why = error.strerror if isinstance(error, OSError) else f"has not ended within {_PATIENCE_SEC:g} s"
            hint = f"; {one_line(hint)}" if (hint := str(self._program.get("installHint") or "").strip()) else ""
            raise NotConfigured(f"{self._place}: {argv[0]}, which logs in to the cluster: {why}{hint}") from None
        try:
            status = json.loads(done.stdout)["status"] if done.returncode == 0 else None
        except (ValueError, KeyError, TypeError):
            status = None
        if not isinstance(status, dict):
            ended = f"ended with code {done.returncode}" if done.returncode else "printed no credentials"
            raise NotConfigured(f"{self._place}: {argv[0]}, which logs in to the cluster, {ended}")
        return status

    def _command(self) -> str:
        command = str(self._program.get("command") or "")
        return os.path.join(self._folder, command) if os.sep in command else command

    def _environment(self, version: str) -> dict[str, str]:
        rows = self._program.get("env") or ()
        own = {str(row.get("name")): str(row.get("value")) for row in rows if isinstance(row, dict)}
        about = {
            "kind": "ExecCredential", "apiVersion": version, "spec": {"interactive": sys.stdin.isatty()},
        }  # fmt: skip
        return {**os.environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(about)}


def _seconds(text: str) -> float:
    """A time of RFC 3339, by time.time(); one that is not understood has passed."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return float("-inf")
