"""The certificate authorities that TLS trusts: the image's, or the runtime's own where the image has none."""

from __future__ import annotations

import os

from kedge.light.functools import cache
from kedge.light.types import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

# Where distributions keep their certificates. The bundle's OpenSSL searches only the paths of its own distribution.
_IMAGE_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, Red Hat
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # Alpine without its package, BSD
)
_IMAGE_FOLDER = "/etc/ssl/certs"
_BUNDLED_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "certifi", "cacert.pem")


@cache
def context() -> ssl.SSLContext:
    """A TLS context for clients. SSL_CERT_FILE and SSL_CERT_DIR take precedence."""
    import ssl

    tls = ssl.create_default_context()
    defaults = ssl.get_default_verify_paths()
    if defaults.cafile is None and defaults.capath is None and (path := _file()):
        tls.load_verify_locations(path)
    return tls


def trust_usual(context: Any) -> None:
    """Let a context of `kedge.light.tls_clients` trust the same authorities. Where a folder has them by their hashes,
    OpenSSL looks up only what it needs: reading all takes as long as three starts of Python."""
    import _ssl

    file_variable, file, folder_variable, folder = _ssl.get_default_verify_paths()
    own = os.environ.get(file_variable), os.environ.get(folder_variable)
    if any(path and os.path.exists(path) for path in own):
        context.set_default_verify_paths()
    elif hashed := next(filter(_is_hashed, (folder, _IMAGE_FOLDER)), None):
        context.load_verify_locations(capath=hashed)
    elif path := file if os.path.isfile(file) else _file():
        context.load_verify_locations(cafile=path)


def _file() -> str | None:
    """The file of the image, or the runtime's own."""
    return next((path for path in (*_IMAGE_FILES, _BUNDLED_FILE) if os.path.isfile(path)), None)


def _is_hashed(folder: str) -> bool:
    """Whether a folder has certificates by their hashes: 5ed36f99.0."""
    try:
        return any(name.endswith(".0") for name in os.listdir(folder))
    except OSError:
        return False
