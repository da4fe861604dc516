"""The forms that a secret can take in a log: as it is, and as programs, shells and encoders print it."""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache

from kedge.masking import SHORTEST, SHORTEST_LINE

PIECE = 4095  # characters; longer texts are masked in pieces, so that a mask never holds back more
_LINES_WITHIN = 1 << 16  # characters of secrets, the shortest first, whose lines are also masked one by one
_FORMS_WITHIN = 1 << 18  # the same for forms; later secrets are masked only as they are, to limit memory

_LINE_END = re.compile(r"[\r\n]+|(?:\\[rn])+")  # also the escapes \r and \n, as in keys of several lines inside JSON
_BORDER = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]+-----")
_ALWAYS_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
# Further characters left unescaped by urllib's quote_plus and quote, JavaScript's encodeURIComponent, Java and PHP.
_PLAIN_IN_URLS = (b"~", b"~/", b"~!*'()", b"*", b"")
_URL_ALPHABET = bytes.maketrans(b"+/", b"-_")
_BASE64_ROWS = (64, 76)  # digits in a line of base64 printed by openssl and by base64(1)
_XXD_ROW = 60  # digits in a line of `xxd -p`
_SPECIAL_TO_SHELLS = r"[ !\"$&'()*,;<>?\[\\\]^`{|}]|(?<=[:=])~"
_IN_A_WORD, _AS_A_WORD = re.compile(_SPECIAL_TO_SHELLS), re.compile(rf"{_SPECIAL_TO_SHELLS}|^[~#]")
_IN_DOUBLE_QUOTES = re.compile(r'["$`\\]')
_C_ESCAPES = {
    7: "\\a",
    8: "\\b",
    9: "\\t",
    10: "\\n",
    11: "\\v",
    12: "\\f",
    13: "\\r",
    27: "\\E",
    39: "\\'",
    92: "\\\\",
}


def maskable(values: Iterable[str]) -> tuple[bytes, ...]:
    """The byte strings to mask: each value, and each long line of a value, in all its forms."""
    lines_left, forms_left = _LINES_WITHIN, _FORMS_WITHIN
    found: set[bytes] = set()
    for value in sorted(set(values), key=len):
        lines_left, forms_left = lines_left - len(value), forms_left - len(value)
        if len(_encoded(value)) < SHORTEST:
            continue
        texts = [*_pieces(value), *(_lines(value) if lines_left >= 0 else ())]
        found.update(form for text in texts for form in (_forms(text) if forms_left >= 0 else [_encoded(text)]))
        if lines_left >= 0:
            found.update(_rows(_encoded(value)))
    return tuple(sorted(found))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _pieces(value: str) -> Iterator[str]:
    """The value, or the pieces of a long one. The last piece may be longer, so that none is too short to be masked."""
    ends = [*range(PIECE, len(value) - SHORTEST_LINE, PIECE), len(value)]
    return (value[start:end] for start, end in zip([0, *ends], ends, strict=False))


def _lines(value: str) -> Iterator[str]:
    """The lines of the value that are long enough not to occur in other text by chance."""
    lines = [line.strip() for line in _LINE_END.split(value)]
    for line in lines if len(lines) > 1 else ():
        if len(_encoded(line)) >= SHORTEST_LINE and not _BORDER.fullmatch(line):
            yield from _pieces(line)


def _forms(text: str) -> Iterator[bytes]:
    data = _encoded(text)
    yield data
    yield from (data.hex().encode(), data.hex().upper().encode())
    for before in range(3):
        encoded = _base64(data, before)
        yield from (encoded, encoded.translate(_URL_ALPHABET))
    if data.isalnum():
        return
    for plain in _PLAIN_IN_URLS:
        for hexadecimal in ("%%%02X", "%%%02x"):
            quoted = data.decode("latin-1").translate(_url_table(plain, hexadecimal)).encode()
            yield from (quoted, quoted.replace(b"%20", b"+"))
    for escaped in (*_json(text), *_python(text), *_shell(text)):
        yield _encoded(escaped)


@cache
def _url_table(plain: bytes, hexadecimal: str) -> dict[int, str]:
    return {byte: hexadecimal % byte for byte in range(256) if byte not in _ALWAYS_PLAIN and byte not in plain}


def _base64(text: bytes, before: int) -> bytes:
    """The base64 digits (six bits each) that depend on `text` alone when `before` bytes (modulo 3) precede it."""
    encoded = binascii.b2a_base64(bytes(before) + text, newline=False)
    return encoded[-(-before * 8 // 6) : (before + len(text)) * 8 // 6]


def _rows(data: bytes) -> Iterator[bytes]:
    """The lines that base64, openssl and xxd print for a long value."""
    for digits, width in (*((_base64(data, 0), width) for width in _BASE64_ROWS), (data.hex().encode(), _XXD_ROW)):
        rows = [digits[at : at + width] for at in range(0, len(digits), width)]
        yield from (row for row in rows if len(rows) > 1 and len(row) >= SHORTEST_LINE)


def _json(text: str) -> Iterator[str]:
    """The contents of JSON strings. PHP also escapes slashes, and Go the special characters of HTML."""
    for ascii_only in (True, False):
        written = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield from (written, written.replace("/", "\\/"))
    yield written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _python(text: str) -> Iterator[str]:
    """The output of repr and ascii for a str and for bytes, and similar output of other languages. Which quotes are
    escaped depends on the text around the secret."""
    as_repr = text.replace("\\", "\\\\")
    if not text.isprintable():
        as_repr = "".join(c if c.isprintable() else _escaped(c) for c in as_repr)
    for written in (as_repr, _escaped(text), _escaped(_encoded(text).decode("latin-1"))):
        yield from (written, written.replace("'", "\\'"), written.replace('"', '\\"'))


def _escaped(text: str) -> str:
    return text.encode("unicode_escape").decode()


def _shell(text: str) -> Iterator[str]:
    """A word that a shell can read back: from shlex.quote, bash's `set -x`, `%q` and `declare -p`."""
    yield text.replace("'", "'\"'\"'")
    yield text.replace("'", "'\\''")
    for special in (_IN_A_WORD, _AS_A_WORD, _IN_DOUBLE_QUOTES):
        yield special.sub(r"\\\g<0>", text)
    in_c = {code: f"\\{code:03o}" for code in (*range(32), 127)} | _C_ESCAPES
    yield text.translate(in_c)
    octal = in_c | {code: f"\\{code:03o}" for code in range(128, 256)}
    yield _encoded(text).decode("latin-1").translate(octal)
