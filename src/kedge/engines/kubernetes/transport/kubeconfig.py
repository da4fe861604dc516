"""The endpoint of a context in kubeconfig files: https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kedge.engines.kubernetes.transport.credentials import ProgramProof
from kedge.engines.kubernetes.transport.endpoint import (
    ClientCertificate,
    FixedProof,
    KeptToken,
    NotConfigured,
    Proof,
    ServerEndpoint,
    basic,
    bearer,
)
from kedge.errors import InputError, Problem
from kedge.spec import yaml

USUAL = "~/.kube/config"
DEFAULT_NAMESPACE = "default"


class ContextEndpoint(NamedTuple):
    """An endpoint, and the name of the context that it is from."""

    endpoint: ServerEndpoint
    context: str


class _NamedEntry(NamedTuple):
    """A cluster, a user or a context. `place` is for messages, `folder` for relative paths."""

    values: Mapping[str, Any]
    place: str
    folder: str

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise NotConfigured(f"{self.place}: {key} must be a text")
        return value or None

    def content(self, key: str) -> bytes | None:
        """What `key-data` holds in Base64, or the file that `key` names."""
        if data := self.text(f"{key}-data"):
            try:
                return base64.b64decode(data)
            except binascii.Error as error:
                raise NotConfigured(f"{self.place}: {key}-data is not Base64: {error}") from None
        return _read(path, self.place) if (path := self.path(key)) else None

    def path(self, key: str) -> str | None:
        value = self.text(key)
        return os.path.join(self.folder, os.path.expanduser(value)) if value else None


def paths(kubeconfig: str | None, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The files to read: those that are named, else those of KUBECONFIG, else the usual one. They may not exist."""
    named = [path for path in (kubeconfig or environment.get("KUBECONFIG", "")).split(os.pathsep) if path]
    return tuple(os.path.abspath(os.path.expanduser(path)) for path in named or [USUAL])


def endpoint(
    kubeconfig: str | None = None, context: str | None = None, namespace: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> ContextEndpoint:  # fmt: skip
    """The endpoint of a context, of the current one if none is named. NotConfigured."""
    files = paths(kubeconfig, environment)
    merged = _Merged(files, kubeconfig is not None)
    name = context or merged.current()
    chosen = merged.entry("contexts", "context", name)
    cluster = merged.entry("clusters", "cluster", chosen.text("cluster"))
    user_name = chosen.text("user")
    user = merged.entry("users", "user", user_name) if user_name else cluster._replace(values={})
    server = cluster.text("server")
    if not server:
        raise NotConfigured(f"{cluster.place}: server is missing")
    found = ServerEndpoint(
        server=server.rstrip("/"),
        namespace=namespace or chosen.text("namespace") or DEFAULT_NAMESPACE,
        proof=_proof(user),
        ca=cluster.content("certificate-authority"),
        verify=cluster.values.get("insecure-skip-tls-verify") is not True,
        tls_name=cluster.text("tls-server-name"),
        proxy=cluster.text("proxy-url"),
        source=chosen.place,
    )
    return ContextEndpoint(found, name)


class _Merged:
    """Several files as one: of entries with the same name, the first counts."""

    def __init__(self, files: tuple[str, ...], named: bool) -> None:
        self._files = files
        there = [path for path in files if os.path.exists(path)]
        if not there:
            how = "" if named else "; set KUBECONFIG, or name one with --kubernetes kubeconfig=FILE"
            raise NotConfigured(f"there is no kubeconfig file {' or '.join(files)}{how}")
        self._values = [(path, _parsed(path)) for path in there]

    def current(self) -> str:
        """The name of the current context."""
        for _, values in self._values:
            if current := values.get("current-context"):
                return str(current)
        if len(names := list(self._names("contexts"))) == 1:
            return names[0]
        raise NotConfigured(
            f"{self._values[0][0]}: current-context is missing: run kubectl config use-context NAME, or add "
            f"--kubernetes context=NAME{_some(names)}"
        )

    def entry(self, table: str, key: str, name: str | None) -> _NamedEntry:
        """The entry of a table with a name."""
        for path, row in self._rows(table):
            if row.get("name") == name:
                values = row.get(key) or {}
                if isinstance(values, dict):
                    return _NamedEntry(values, f"{path}: {key} {name!r}", os.path.dirname(path))
        files = ", ".join(path for path, _ in self._values)
        known = _some(list(self._names(table)))
        raise NotConfigured(f"{files}: there is no {key} {name!r}{known}" if name else f"{files}: a {key} is missing")

    def _rows(self, table: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for path, values in self._values:
            rows = values.get(table)
            for row in rows if isinstance(rows, list) else []:
                if isinstance(row, dict):
                    yield path, row

    def _names(self, table: str) -> Iterator[str]:
        yield from dict.fromkeys(str(row.get("name")) for _, row in self._rows(table))


def _some(names: list[str]) -> str:
    return f" (there is {', '.join(names[:8])}{', …' if len(names) > 8 else ''})" if names else ""


def _proof(user: _NamedEntry) -> Proof:
    certificate, key = user.content("client-certificate"), user.content("client-key")
    if (certificate is None) != (key is None):
        raise NotConfigured(f"{user.place}: it has only one of client-certificate and client-key")
    shown = ClientCertificate(certificate, key) if certificate and key else None
    asked_for = _impersonated(user)
    if file := user.path("tokenFile"):
        return KeptToken(file, shown, asked_for)
    if token := user.text("token"):
        return FixedProof(asked_for | bearer(token), shown)
    if name := user.text("username"):
        return FixedProof(asked_for | basic(name, user.text("password") or ""), shown)
    if isinstance(program := user.values.get("exec"), dict):
        return ProgramProof(program, user.place, user.folder, asked_for)
    if user.values.get("auth-provider"):
        raise NotConfigured(
            f"{user.place}: auth-provider has been removed from Kubernetes; use the exec plugin of your cluster"
        )
    return FixedProof(asked_for, shown)


def _impersonated(user: _NamedEntry) -> dict[str, str]:
    """The header for `as`. Groups would need a header more than once, which kubectl alone can do."""
    if user.values.get("as-groups") or user.values.get("as-user-extra"):
        raise NotConfigured(f"{user.place}: kedge knows `as`, but neither as-groups nor as-user-extra")
    name = user.text("as")
    return {"Impersonate-User": name} if name else {}


def _parsed(path: str) -> Mapping[str, Any]:
    content = _read(path, "the kubeconfig file")
    if not content.strip():
        raise NotConfigured(f"the kubeconfig file {path} is empty")
    try:
        value = yaml.read(content.decode(), path).value
    except (InputError, UnicodeDecodeError) as error:
        if isinstance(error, NotConfigured):
            raise
        raise NotConfigured(f"{path} is not a valid kubeconfig file: {_without_lines(error)}") from None
    return value if isinstance(value, dict) else {}


def _without_lines(error: Exception) -> str:
    """The error without the lines of the file: they may hold a token or a password."""
    if not isinstance(error, InputError):
        return str(error)
    return "; ".join(str(each._replace(excerpt="") if isinstance(each, Problem) else each) for each in error.problems)


def _read(path: str, what: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise NotConfigured(f"{what}: {path}: {error.strerror}") from None
