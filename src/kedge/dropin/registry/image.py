"""Whether an image exists: the conversation with one registry. A server that is in trouble, or that answers what nobody
expects, proves nothing (Doubt)."""

from __future__ import annotations

from kedge import http_challenges
from kedge.dropin.net import http_addresses
from kedge.dropin.net.http_addresses import Address
from kedge.dropin.net.http_client import Response
from kedge.dropin.registry import tokens
from kedge.dropin.registry.asking import Asker, Doubt, Refused, is_success, shown_status
from kedge.dropin.registry.tokens import Login
from kedge.image_names import ImageName
from kedge.light.types import Iterable

# All four kinds of manifests: a registry answers 404 to clients that do not accept the kind that it has.
_MANIFESTS = ", ".join((
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
))  # fmt: skip
_NO_CREDENTIALS = (
    "the job gives no credentials for it: check the name of the image, or set 'auth' with username and password in its "
    "prerequisite"
)
_WRONG_CREDENTIALS = "check username and password in 'auth' of the image's prerequisite, and that this user may pull it"


def check(name: ImageName, registries: Iterable[str], credentials: Login | None, asker: Asker) -> str:
    """Ask the first of these addresses that speaks the protocol. It has the image if this returns, which is its host.
    Refused: it certainly cannot be pulled from there. Doubt: nothing is certain."""
    registry = _first_registry(registries, asker)
    url = f"{registry.scheme}://{registry.authority}{registry.target}{name.repository}/manifests/{name.manifest}"
    response = asker.head(url, {"Accept": _MANIFESTS})
    if is_success(response):
        return registry.authority
    if response.status == 404:
        raise Doubt(
            f"{registry.authority} answers {shown_status(404)} to a request without credentials, and some registries "
            "hide private images so"
        )
    _expect_401(registry, response)
    authorization = _authorization(registry, name, response, credentials, asker)
    response = asker.head(url, {"Accept": _MANIFESTS, "Authorization": authorization})
    if is_success(response):
        return registry.authority
    if response.status == 404 and registry.same_server(response.address):
        raise Refused(f"{registry.authority} has no such image: check its name and tag")
    _expect_401(registry, response)
    raise Refused(f"{registry.authority} refuses access to it, and {_advice(credentials)}")


def _first_registry(urls: Iterable[str], asker: Asker) -> Address:
    """The first registry that answers as one. Doubt: none does."""
    reasons = []
    for url in urls:
        try:
            return _registry(url, asker)
        except Doubt as doubt:
            reasons.append(str(doubt))
    raise Doubt("; ".join(reasons))


def _registry(url: str, asker: Asker) -> Address:
    """The registry at an address, or where it leads to on the same host, from http to https."""
    response = asker.head(url, {})
    asked, found = http_addresses.parse(url), response.address
    if not (is_success(response) or response.status == 401):
        raise Doubt(f"{asked.shown} answers {shown_status(response.status)}, as no registry of version 2 does")
    if asked.same_server(found):
        return asked
    if found.host == asked.host and found.scheme == "https" and found.target == asked.target:
        return found
    raise Doubt(f"{asked.shown} leads to another server, {found.authority}")


def _expect_401(registry: Address, response: Response) -> None:
    """Doubt: the answer is another one, or another server's."""
    if not registry.same_server(response.address):
        raise Doubt(
            f"{registry.authority} leads to {response.address.authority}, which answers {shown_status(response.status)}"
        )
    if response.status != 401:
        raise Doubt(f"{registry.authority} answers {shown_status(response.status)}")


def _authorization(
    registry: Address, name: ImageName, response: Response, credentials: Login | None, asker: Asker
) -> str:
    """The header by which to ask again, as the registry wants it. Refused, Doubt."""
    headers = [value for value in response.values("www-authenticate") if value.strip()]
    if not headers:
        raise Refused(f"{registry.authority} refuses access to it and names no way to authenticate")
    try:
        challenges = http_challenges.parse(headers)
    except ValueError as error:
        raise Doubt(f"the header WWW-Authenticate of {registry.authority} is not valid: {error}") from None
    ways = {each.scheme: each.parameters for each in reversed(challenges)}
    if "realm" in ways.get("bearer", {}):
        try:
            return f"Bearer {tokens.token(asker, registry, name.repository, ways['bearer'], credentials)}"
        except Refused as refused:
            raise Refused(f"{refused}, and {_advice(credentials)}") from None
    if "basic" not in ways:
        raise Doubt(f"{registry.authority} wants an authentication that kedge does not support")
    if credentials is None:
        raise Refused(f"{registry.authority} wants a password, and {_NO_CREDENTIALS}")
    return credentials.header


def _advice(credentials: Login | None) -> str:
    return _WRONG_CREDENTIALS if credentials else _NO_CREDENTIALS
