"""Whom TLS trusts: what the image trusts, or what came with the runtime where the image says nothing."""

from __future__ import annotations

import os
import ssl
from functools import cache

# Where distributions keep what they trust. The bundle's OpenSSL looks only where its own distribution does.
_USUAL = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, Red Hat
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # Alpine without its package, BSD
)
_CARRIED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "certifi", "cacert.pem")


@cache
def context() -> ssl.SSLContext:
    """For a client. SSL_CERT_FILE and SSL_CERT_DIR count first."""
    made = ssl.create_default_context()
    found = ssl.get_default_verify_paths()
    if found.cafile is None and found.capath is None:
        path = next((path for path in (*_USUAL, _CARRIED) if os.path.isfile(path)), None)
        if path:
            made.load_verify_locations(path)
    return made
