"""The keys of a job's own ssh. Each submission makes new ones; they travel like secrets and end with the job."""

from __future__ import annotations

from kedge.contract import JOB_SSH_HOST_KEY, JOB_SSH_KEY
from kedge.errors import CannotRun


def made() -> dict[str, str]:
    """A key pair for logging in and one for the servers, as private keys in OpenSSH's format by their secret's name.
    CannotRun: no package can make them."""
    return {JOB_SSH_KEY: _private_key(), JOB_SSH_HOST_KEY: _private_key()}


def _private_key() -> str:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    except ImportError as error:
        raise CannotRun(f"the job uses ssh, which needs the package asyncssh ({error}): pip install asyncssh") from None
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


def public_line(private_key: str) -> str:
    """The public key of a private one that was made here, as its type and data."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

    key = load_ssh_private_key(private_key.encode(), None)
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
