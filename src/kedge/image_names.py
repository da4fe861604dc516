"""Names of container images: `[registry/]repository[:tag][@digest]`. Pure, and without regular expressions, because the
init phase of a task reads one and has no time to load them.

The grammar is the one of the OCI distribution specification and of Docker's reference format.
"""

from __future__ import annotations

from kedge.light.types import NamedTuple

_LOWER = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_SEPARATORS = frozenset("._-")
_HEX = frozenset("0123456789abcdefABCDEF")
_WORD = _LOWER | frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_DIGITS = frozenset("0123456789")
_MAX_REPOSITORY, _MAX_TAG = 255, 128  # characters
_MIN_HEX = 32  # characters of a digest
_HEX_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}


class ImageName(NamedTuple):
    """`registry` is a host with or without a port, None for Docker Hub. `tag` and `digest` are None if the name has
    none; with neither, the tag `latest` is meant."""

    registry: str | None
    repository: str
    tag: str | None = None
    digest: str | None = None

    @property
    def manifest(self) -> str:
        """What a registry is asked for: the digest, which is more exact, or the tag."""
        return self.digest or self.tag or "latest"


def parse(text: str) -> ImageName:
    """The parts of a name. ValueError: it is not the name of an image; the message is the reason."""
    name, at, digest = text.partition("@")
    registry, repository = split_registry(name)
    path, slash, last = repository.rpartition("/")
    last, colon, tag = last.partition(":")
    repository = f"{path}{slash}{last}"
    _check_name(text, registry, repository)
    if colon:
        _check_tag(tag)
    if at:
        _check_digest(digest)
    if registry is None and not slash:
        repository = f"library/{repository}"
    return ImageName(registry, repository, tag if colon else None, digest if at else None)


def split_registry(name: str) -> tuple[str | None, str]:
    """The registry, None for Docker Hub, and the rest. What stands before the first `/` is a registry only if it looks
    like a host: it has a dot or a port, or is `localhost`."""
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return first, rest
    return None, name


def without_tag(name: str) -> str:
    """The name without its tag and digest; a colon before the last slash belongs to a port."""
    path, slash, last = name.partition("@")[0].rpartition("/")
    return f"{path}{slash}{last.partition(':')[0]}"


def is_host(text: str) -> bool:
    """Whether a text is a host name or address, with or without a port. IPv6 addresses are in brackets."""
    if text.startswith("["):
        address, closed, port = text[1:].partition("]")
        return (
            bool(closed)
            and ":" in address
            and _consists_of(address, _HEX | {":", "."})
            and (not port or _is_port(port))
        )
    host, colon, port = text.partition(":")
    labels = all(_is_label(label) for label in host.removesuffix(".").split("."))
    return labels and (not colon or _is_port(f":{port}"))


def _check_name(text: str, registry: str | None, repository: str) -> None:
    if "://" in text:
        raise ValueError("the name of an image has no scheme; remove everything up to '://'")
    if registry is not None and not is_host(registry):
        raise ValueError(f"{_quoted(registry)} is not the address of a registry")
    if not repository:
        raise ValueError("the name of the repository is missing")
    if len(repository) > _MAX_REPOSITORY:
        raise ValueError(f"the name of the repository is longer than {_MAX_REPOSITORY} characters")
    if not all(_is_component(part) for part in repository.split("/")):
        raise ValueError(
            f"{_quoted(repository)} is not the name of a repository: use lower-case letters and digits, separated by "
            "'.', '_', '__' or '-', with '/' between the parts"
        )


def _check_tag(tag: str) -> None:
    if len(tag) > _MAX_TAG or not tag or tag[0] not in _WORD or not _consists_of(tag, _WORD | {".", "-"}):
        raise ValueError(f"{_quoted(tag)} is not a tag: use up to {_MAX_TAG} letters, digits, '_', '.' and '-'")


def _check_digest(digest: str) -> None:
    algorithm, colon, value = digest.partition(":")
    parts = algorithm.replace("+", "-").replace(".", "-").replace("_", "-").split("-")
    named = all(part and part[0] not in _DIGITS and _consists_of(part, _WORD) for part in parts)
    wanted = _HEX_LENGTHS.get(algorithm)
    long_enough = len(value) == wanted if wanted else len(value) >= _MIN_HEX
    if not (colon and named and long_enough and _consists_of(value, _HEX)):
        algorithm, wanted = (algorithm, wanted) if wanted else ("sha256", 64)
        raise ValueError(f"{_quoted(digest)} is not a digest: write it as {algorithm}:<{wanted} hexadecimal digits>")


def _is_component(text: str) -> bool:
    """Words with a dot, one or two underscores or any number of hyphens between them."""
    if not (text and text[0] in _LOWER and text[-1] in _LOWER and _consists_of(text, _LOWER | _SEPARATORS)):
        return False
    gaps = "".join(" " if c in _LOWER else c for c in text).split()
    return all(gap in (".", "_", "__") or not gap.strip("-") for gap in gaps)


def _is_label(text: str) -> bool:
    """One part of a host name. Underscores are not allowed in host names, but some networks have them."""
    return bool(text) and text[0] != "-" and text[-1] != "-" and _consists_of(text, _WORD | {"-"})


def _is_port(text: str) -> bool:
    digits = text.removeprefix(":")
    return text != digits and 0 < len(digits) <= 5 and _consists_of(digits, _DIGITS) and 0 < int(digits) < 65536


def _consists_of(text: str, characters: frozenset[str]) -> bool:
    return characters.issuperset(text)


def _quoted(text: str) -> str:
    """A part of the name for a message, on one line."""
    return f"'{text}'" if text.isprintable() else ascii(text)
