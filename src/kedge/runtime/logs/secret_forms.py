"""What a secret looks like in a log: as it is, and as programs, shells and encoders write it."""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache

from kedge.masking import SHORTEST, SHORTEST_LINE

PIECE = 4095  # characters; longer texts are masked in pieces, so that a mask never waits for more
_LINES_WITHIN = 1 << 16  # characters of secrets, the shortest first, whose lines are masked on their own
_FORMS_WITHIN = 1 << 18  # the same for forms; what goes beyond is masked as it is, so that forms fit into memory

_LINE_END = re.compile(r"[\r\n]+|(?:\\[rn])+")  # as text, too: the keys inside of JSON are of several lines
_BORDER = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]+-----")
_ALWAYS_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
# What is left as it is besides: by urllib's quote_plus and quote, JavaScript's encodeURIComponent, Java, PHP.
_PLAIN_IN_URLS = (b"~", b"~/", b"~!*'()", b"*", b"")
_URL_ALPHABET = bytes.maketrans(b"+/", b"-_")
_ROWS = (64, 76)  # digits in a line of base64, by openssl and by base64(1)
_ROW_OF_XXD = 60
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
    """What is masked: each value and each long line of it in all its forms."""
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
    """The value; a long one in pieces, of which the last may be longer, so that none is too short to be masked."""
    ends = [*range(PIECE, len(value) - SHORTEST_LINE, PIECE), len(value)]
    return (value[start:end] for start, end in zip([0, *ends], ends, strict=False))


def _lines(value: str) -> Iterator[str]:
    """The lines that may be printed one by one and that no other text has by chance."""
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
    """The digits that only `text` decides when `before` bytes (modulo 3) precede it: each stands for six bits."""
    encoded = binascii.b2a_base64(bytes(before) + text, newline=False)
    return encoded[-(-before * 8 // 6) : (before + len(text)) * 8 // 6]


def _rows(data: bytes) -> Iterator[bytes]:
    """What base64, openssl and xxd print in several lines."""
    for digits, width in (*((_base64(data, 0), width) for width in _ROWS), (data.hex().encode(), _ROW_OF_XXD)):
        rows = [digits[at : at + width] for at in range(0, len(digits), width)]
        yield from (row for row in rows if len(rows) > 1 and len(row) >= SHORTEST_LINE)


def _json(text: str) -> Iterator[str]:
    """Between the quotes; PHP escapes slashes, too, and Go what HTML has a meaning for."""
    for ascii_only in (True, False):
        written = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield from (written, written.replace("/", "\\/"))
    yield written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _python(text: str) -> Iterator[str]:
    """What repr and ascii print, of a str and of bytes, and their kin in other languages: which quotes they escape
    depends on what stands beside the secret."""
    kept = text.replace("\\", "\\\\")
    if not text.isprintable():
        kept = "".join(c if c.isprintable() else _escaped(c) for c in kept)
    for written in (kept, _escaped(text), _escaped(_encoded(text).decode("latin-1"))):
        yield from (written, written.replace("'", "\\'"), written.replace('"', '\\"'))


def _escaped(text: str) -> str:
    return text.encode("unicode_escape").decode()


def _shell(text: str) -> Iterator[str]:
    """As a word that a shell reads back: shlex.quote, bash's `set -x`, `%q` and `declare -p`."""
    yield text.replace("'", "'\"'\"'")
    yield text.replace("'", "'\\''")
    for special in (_IN_A_WORD, _AS_A_WORD, _IN_DOUBLE_QUOTES):
        yield special.sub(r"\\\g<0>", text)
    in_c = {code: f"\\{code:03o}" for code in (*range(32), 127)} | _C_ESCAPES
    yield text.translate(in_c)
    octal = in_c | {code: f"\\{code:03o}" for code in range(128, 256)}
    yield _encoded(text).decode("latin-1").translate(octal)
