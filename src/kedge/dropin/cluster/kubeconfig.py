"""Reading a kubeconfig file: the cluster and the user of its current context."""

from __future__ import annotations

import binascii
import os

from kedge.dropin.cluster.access import ApiServer, CannotReachCluster, read, with_scheme
from kedge.dropin.cluster.credentials import Credentials
from kedge.dropin.net.http_connections import Tls
from kedge.errors import InputError, Problem
from kedge.light.types import Any, Mapping, NamedTuple
from kedge.spec import yaml

_NOT_HERE = ("exec", "auth-provider")  # programs and services that an init container does not have


class _Section(NamedTuple):
    """A mapping of the file. `name` is for messages, `folder` for relative paths."""

    values: Mapping[str, Any]
    name: str
    folder: str

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise CannotReachCluster(f"{self.name}: {key} must be a text")
        return value or None

    def content(self, key: str) -> bytes | None:
        """The content of `key-data`, which is Base64, or of the file that `key` names."""
        if data := self.text(f"{key}-data"):
            try:
                return binascii.a2b_base64(data, strict_mode=False)
            except ValueError as error:
                raise CannotReachCluster(f"{self.name}: {key}-data is not Base64: {error}") from None
        return read(path) if (path := self.path(key)) else None

    def path(self, key: str) -> str | None:
        value = self.text(key)
        return os.path.join(self.folder, value) if value else None


def api_server(file: str, address: str | None, environment: Mapping[str, str]) -> ApiServer:
    """The API server of the current context, or at `address` if that is given. CannotReachCluster."""
    config = _parsed(file)
    context = _named(config, file, "contexts", "context", _current(config, file))
    cluster = _named(config, file, "clusters", "cluster", context.text("cluster"))
    server = address or cluster.text("server")
    if not server:
        raise CannotReachCluster(f"{cluster.name}: server is missing")
    user = (
        _named(config, file, "users", "user", context.text("user"))
        if context.text("user")
        else cluster._replace(values={})
    )
    if proxy := cluster.text("proxy-url"):
        environment = {"all_proxy": proxy}
    return ApiServer(with_scheme(server), _tls(cluster, user), _credentials(user), environment)


def _parsed(file: str) -> Mapping[str, Any]:
    try:
        value = yaml.read(read(file).decode(), file).value
    except (InputError, UnicodeDecodeError) as error:
        raise CannotReachCluster(f"{file} is not a valid kubeconfig file: {_without_lines(error)}") from None
    return value if isinstance(value, dict) else {}


def _without_lines(error: Exception) -> str:
    """The error without the lines of the file: they may hold a token or a password."""
    if not isinstance(error, InputError):
        return str(error)
    return "; ".join(str(each._replace(excerpt="") if isinstance(each, Problem) else each) for each in error.problems)


def _current(config: Mapping[str, Any], file: str) -> str:
    if current := config.get("current-context"):
        return str(current)
    contexts = config.get("contexts") or []
    if isinstance(contexts, list) and len(contexts) == 1 and isinstance(contexts[0], dict):
        return str(contexts[0].get("name"))
    raise CannotReachCluster(f"{file}: current-context is missing; set it with kubectl config use-context NAME")


def _named(config: Mapping[str, Any], file: str, table: str, key: str, name: str | None) -> _Section:
    """The row of a table with a name."""
    rows = config.get(table)
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and row.get("name") == name:
            values = row.get(key) or {}
            if not isinstance(values, dict):
                break
            return _Section(values, f"{file}: {key} {name!r}", os.path.dirname(os.path.abspath(file)))
    raise CannotReachCluster(f"{file}: there is no {key} {name!r}" if name else f"{file}: a {key} is missing")


def _tls(cluster: _Section, user: _Section) -> Tls:
    certificate, key = user.content("client-certificate"), user.content("client-key")
    if (certificate is None) != (key is None):
        raise CannotReachCluster(f"{user.name}: it has only one of client-certificate and client-key")
    return Tls(
        verify=cluster.values.get("insecure-skip-tls-verify") is not True,
        ca=cluster.content("certificate-authority"),
        client=certificate + b"\n" + key if certificate and key else None,
        name=cluster.text("tls-server-name"),
    )


def _credentials(user: _Section) -> Credentials:
    if token := user.text("token"):
        return Credentials(token=token)
    if file := user.path("tokenFile"):
        return Credentials(token_file=file)
    if name := user.text("username"):
        return Credentials(user=f"{name}:{user.text('password') or ''}")
    if unsupported := next((key for key in _NOT_HERE if user.values.get(key)), None):
        message = f"{user.name}: {unsupported} is not supported in the init phase; use a token or a client certificate"
        raise CannotReachCluster(message)
    return Credentials()
