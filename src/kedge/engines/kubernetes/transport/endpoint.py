"""Where an API server is, and the credentials for it."""

from __future__ import annotations

import base64
import time
from contextlib import suppress
from typing import NamedTuple, Protocol
from urllib.parse import SplitResult, urlsplit

from kedge.errors import InputError

_FRESH_SEC = 60.0  # that a token from a file is used


class NotConfigured(InputError):
    """A kubeconfig file, or what a pod should have in its place, is missing or wrong."""


class ClientCertificate(NamedTuple):
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


class Proof(Protocol):
    """What proves who asks."""

    def headers(self, renew: bool = False) -> dict[str, str]:
        """The headers of a request. `renew`: those of the last time were refused. NotConfigured."""
        ...

    def certificate(self) -> ClientCertificate | None:
        """What TLS shows. NotConfigured."""
        ...


class FixedProof:
    """Proofs that do not change."""

    def __init__(self, headers: dict[str, str] | None = None, certificate: ClientCertificate | None = None) -> None:
        self._headers, self._certificate = headers or {}, certificate

    def headers(self, renew: bool = False) -> dict[str, str]:
        return self._headers

    def certificate(self) -> ClientCertificate | None:
        return self._certificate


def bearer(token: str) -> dict[str, str]:
    """The header for a token."""
    return {"Authorization": f"Bearer {token}"}


def basic(user: str, password: str) -> dict[str, str]:
    """The header for a name and a password."""
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


class KeptToken:
    """A token in a file that something replaces long before it ends, as a kubelet does."""

    def __init__(self, path: str, shown: ClientCertificate | None = None, others: dict[str, str] | None = None) -> None:
        self._path, self._shown, self._others = path, shown, others or {}
        self._token, self._read_at = "", float("-inf")

    def headers(self, renew: bool = False) -> dict[str, str]:
        if renew or time.monotonic() - self._read_at > _FRESH_SEC:
            try:
                with open(self._path, encoding="ascii", errors="replace") as file:
                    self._token, self._read_at = file.read().strip(), time.monotonic()
            except OSError as error:
                raise NotConfigured(f"the token of the API server: {self._path}: {error.strerror}") from None
        return self._others | bearer(self._token)

    def certificate(self) -> ClientCertificate | None:
        return self._shown


class ServerEndpoint(NamedTuple):
    """`ca` is PEM; None: the usual authorities. `tls_name` is the name in the server's certificate if it is not that of
    the address. `proxy` replaces those of the environment. `source` says in messages where this comes from."""

    server: str
    namespace: str
    proof: Proof = FixedProof()
    ca: bytes | None = None
    verify: bool = True
    tls_name: str | None = None
    proxy: str | None = None
    source: str = ""

    @property
    def url(self) -> SplitResult:
        """The address in parts. NotConfigured: it is none."""
        url = urlsplit(self.server if "://" in self.server else f"https://{self.server}")
        with suppress(ValueError):  # of a port that is no number
            if url.scheme in ("http", "https") and url.hostname and url.port != 0:
                return url
        raise NotConfigured(f"{self.source}: {self.server!r} is not the address of an API server")
