"""The keys of a run's link. Each submission to a cluster makes new ones, which end with the job."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from kedge.errors import CannotRun
from kedge.link.keys import LinkKeys

_FROM = datetime(2000, 1, 1, tzinfo=UTC)  # nodes may have a wrong clock, and who has the certificate trusts only it
_DAYS = 3650


def made() -> LinkKeys:
    """A certificate for the controller (EC P-256, valid for 10 years) and keys for the tokens. CannotRun: no package
    can make them."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    except ImportError as error:
        raise CannotRun(
            f"a job on a cluster needs the package cryptography ({error}): pip install cryptography"
        ) from None
    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return LinkKeys(_certificate(key), private, os.urandom(32).hex(), os.urandom(32).hex())


def _certificate(key: Any) -> str:
    """A certificate for the key, signed by itself, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding

    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kedge controller")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(_FROM).not_valid_after(datetime.now(UTC) + timedelta(days=_DAYS))
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM).decode()
