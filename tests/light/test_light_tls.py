"""The light clients are as strict as those of `ssl`."""

from __future__ import annotations

import _socket
import ssl

import pytest

from kedge.light import tls_clients


@pytest.mark.parametrize("name", ["check_hostname", "verify_mode", "minimum_version", "options"])
def test_a_context_has_the_settings_of_ssl(name: str) -> None:
    assert getattr(tls_clients.client_context(), name) == getattr(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), name)


def test_ciphers() -> None:
    light, model = (
        context.get_ciphers() for context in (tls_clients.client_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    )
    assert light == model


@pytest.mark.parametrize("host", ["", "a\0b", "\u00e4"])
def test_names_that_are_not_valid(host: str) -> None:
    class Weak(_socket.socket):
        """As light clients need it."""

    raw = Weak(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        with pytest.raises((OSError, ValueError, TypeError)):
            tls_clients.TlsSocket(tls_clients.client_context(), raw, host)
    finally:
        raw.close()
