"""How a client shows who it is to an API server."""

from __future__ import annotations

import binascii

from kedge import user_files
from kedge.light import json
from kedge.light.types import NamedTuple

_LONGEST_TOKEN = 1 << 20  # bytes


class Credentials(NamedTuple):
    """At most one of a token, a file that holds one, and `name:password`. A certificate is part of `Tls`."""

    token: str | None = None
    token_file: str | None = None
    user: str | None = None

    def headers(self) -> dict[str, str]:
        """The header Authorization. A file is read each time, because clusters replace its token every hour. OSError,
        ValueError."""
        if token := self.current_token():
            return {"Authorization": f"Bearer {token}"}
        if self.user is not None:
            encoded = binascii.b2a_base64(self.user.encode(), newline=False).decode()
            return {"Authorization": f"Basic {encoded}"}
        return {}

    def current_token(self) -> str | None:
        """The token as it is now. OSError, ValueError."""
        if self.token_file is None:
            return self.token
        token = user_files.read(self.token_file, _LONGEST_TOKEN).decode().strip()
        if not token:
            raise ValueError(f"{self.token_file} holds no token")
        return token

    def subject(self) -> str | None:
        """Whom the token is for, as `system:serviceaccount:NAMESPACE:NAME`; None if that is not readable. Whether the
        token is genuine is not checked."""
        try:
            payload = (self.current_token() or "").split(".")[1].replace("-", "+").replace("_", "/")
            claims = json.loads(binascii.a2b_base64(payload + "=" * (-len(payload) % 4)))
            subject = claims["sub"]
        except (OSError, ValueError, IndexError, KeyError, TypeError):
            return None
        return subject if isinstance(subject, str) and subject.isprintable() else None
