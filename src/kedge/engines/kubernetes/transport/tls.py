"""The TLS context of an endpoint."""

from __future__ import annotations

import os
import ssl

from kedge import certificate_authorities
from kedge.engines.kubernetes.transport.endpoint import ClientCertificate, NotConfigured, ServerEndpoint


def context(endpoint: ServerEndpoint) -> ssl.SSLContext:
    """The context for connections to this server. NotConfigured: a certificate is damaged."""
    made = _trusting(endpoint)
    if shown := endpoint.proof.certificate():
        _show(made, shown, endpoint.source)
    return made


def _trusting(endpoint: ServerEndpoint) -> ssl.SSLContext:
    if not endpoint.verify:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
        return made
    if endpoint.ca is None:
        return certificate_authorities.context()
    try:
        return ssl.create_default_context(cadata=endpoint.ca.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise NotConfigured(f"{endpoint.source}: certificate-authority is no certificate: {error}") from None


def _show(made: ssl.SSLContext, shown: ClientCertificate, source: str) -> None:
    """Python reads them only from a file, which is there, for this user alone, no longer than that takes."""
    import tempfile  # slow to load, and not needed in a cluster

    handle, path = tempfile.mkstemp(prefix="kedge-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(shown.certificate + b"\n" + shown.key)
        made.load_cert_chain(path, password=lambda: b"")
    except (ssl.SSLError, ValueError) as error:
        raise NotConfigured(f"{source}: client-certificate and client-key do not fit: {error}") from None
    finally:
        os.unlink(path)
