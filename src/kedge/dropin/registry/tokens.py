"""Tokens for one repository, from the server that a registry names in its challenge."""

from __future__ import annotations

import binascii

from kedge.dropin.net import http_addresses
from kedge.dropin.net.http_addresses import Address
from kedge.dropin.net.http_client import Response
from kedge.dropin.registry.addresses import same_machine
from kedge.dropin.registry.asking import Asker, Doubt, Refused, is_success, shown_status
from kedge.light import json
from kedge.light.types import Mapping, NamedTuple

_NOT_FOR_THE_SERVER = frozenset({"realm", "error", "error_description", "error_uri"})  # RFC 6750, section 3
_KEYS = ("token", "access_token")  # a reply has one of them, or both with the same value
_UNRESERVED = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")


class Login(NamedTuple):
    """A user and a password, as `auth` of an image has them."""

    user: str
    password: str

    @property
    def header(self) -> str:
        """The value of the header Authorization."""
        encoded = binascii.b2a_base64(f"{self.user}:{self.password}".encode(), newline=False)
        return f"Basic {encoded.decode()}"


def token(
    asker: Asker, registry: Address, repository: str, fields: Mapping[str, str], credentials: Login | None
) -> str:
    """A token to pull from a repository. `fields` are the challenge's. Refused: the server does not accept the
    credentials, or wants some. Doubt: any other trouble."""
    realm = _realm(registry, fields.get("realm", ""))
    query = {"scope": f"repository:{repository}:pull", **fields}
    pairs = (f"{_escaped(name)}={_escaped(value)}" for name, value in query.items() if name not in _NOT_FOR_THE_SERVER)
    separator = "&" if "?" in realm.target else "?"
    url = f"{realm.scheme}://{realm.authority}{realm.target}{separator}{'&'.join(pairs)}"
    response = asker.ask("GET", url, {"Authorization": credentials.header} if credentials else {})
    if is_success(response):
        return _token_in(realm, response)
    if response.status == 401 and realm.same_server(response.address):
        raise Refused(f"{realm.shown} answers {shown_status(401)}")
    raise Doubt(f"{realm.shown}, which gives the tokens for it, answers {shown_status(response.status)}")


def _realm(registry: Address, text: str) -> Address:
    """The address of the server of tokens. A registry may name any server, but only one that is asked over https, or a
    program of its own host if it speaks plain HTTP itself: no password may travel where others can read it."""
    try:
        realm = http_addresses.parse(text)
    except ValueError as error:
        raise Doubt(f"{registry.authority} names a server of tokens whose address is not valid: {error}") from None
    if realm.scheme == "https" or (registry.scheme == "http" and same_machine(realm, registry)):
        return realm
    raise Doubt(
        f"{registry.authority} wants the credentials to be sent without encryption to {realm.authority}, which kedge "
        "does not do"
    )


def _token_in(realm: Address, response: Response) -> str:
    try:
        reply = json.loads(response.body)
    except (ValueError, RecursionError):
        reply = None
    found = [reply.get(key) for key in _KEYS] if isinstance(reply, dict) else []
    usable = [each for each in found if isinstance(each, str) and each and each.isascii() and each.isprintable()]
    if not usable:
        raise Doubt(f"the reply of {realm.shown} has no token")
    return usable[0]


def _escaped(text: str) -> str:
    """The text as a part of a query."""
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in text.encode(errors="replace"))
