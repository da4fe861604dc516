"""The certificate authorities that TLS trusts: the image's, or the runtime's own where the image has none."""

from __future__ import annotations

import os
import ssl
from functools import cache

# Where distributions keep their certificates. The bundle's OpenSSL searches only the paths of its own distribution.
_IMAGE_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, Red Hat
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # Alpine without its package, BSD
)
_BUNDLED_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "certifi", "cacert.pem")


@cache
def context() -> ssl.SSLContext:
    """A TLS context for clients. SSL_CERT_FILE and SSL_CERT_DIR take precedence."""
    tls = ssl.create_default_context()
    defaults = ssl.get_default_verify_paths()
    if defaults.cafile is None and defaults.capath is None:
        path = next((path for path in (*_IMAGE_FILES, _BUNDLED_FILE) if os.path.isfile(path)), None)
        if path:
            tls.load_verify_locations(path)
    return tls
