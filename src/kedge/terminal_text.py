"""Text of others, made safe for a terminal: colours pass, every other control sequence is shown as text.

Nothing that a task, a plugin or a server says can then move the cursor, erase, set titles or the clipboard, or reorder
or hide what stands beside it. Control characters are shown as `cat -v` does (`^[`), others by their code (`\\u202e`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_RESET = "\x1b[0m"
# Colours and styles (ECMA-48 SGR), but not those that hide (8) or change fonts (10 to 20), which may outlast a reset.
_COLOUR = (
    r"0{0,2}(?:[0-79]|2[1-9]|[34][0-79]|5[3-59]|9[0-7]|10[0-7]|4:[0-5]"
    r"|[345]8(?:;5;\d{1,3}|;2(?:;\d{1,3}){3}|:[25](?::\d{0,3}){1,5}))?"
)
_STYLE = re.compile(rf"(\x1b\[{_COLOUR}(?:;{_COLOUR}){{0,15}}m)")
# Controls; marks of direction, which reorder what is shown; what has no width; ends of lines and paragraphs; halves of
# characters. The joiners that many scripts and emoji need can do nothing of the kind.
_UNSAFE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\ud800-\udfff"
)
_CONTROL = re.compile(f"[{_UNSAFE}]")
_CONTROL_OR_NEWLINE = re.compile(f"[{_UNSAFE}\n]")
_BYTES = bytes(set(range(32)) - set(b"\t")) + b"\x7f"
_MOST_STYLES = 8  # that go on in the next row


def decoded(line: bytes) -> str:
    """The text of bytes of a log; what is no UTF-8 as `\\xff`."""
    return line.decode("utf-8", "backslashreplace")


def is_plain(line: bytes) -> bool:
    """Whether bytes are ASCII without any control character but the tab: nothing has to be done for them."""
    return line.isascii() and len(line.translate(None, _BYTES)) == len(line)


def terminal_text(text: str, newlines: bool = False) -> str:
    """The text with its control characters shown, tabs and with `newlines` line feeds excepted. Its colours end with
    it."""
    unsafe = _CONTROL if newlines else _CONTROL_OR_NEWLINE
    if not unsafe.search(text):
        return text
    parts = _STYLE.split(text.replace("\r\n", "\n") if newlines else text)
    parts[::2] = [_shown(part, unsafe) if part else part for part in parts[::2]]
    ends_plain = len(parts) == 1 or (parts[-2] in (_RESET, "\x1b[m") and not parts[-1].strip("\n"))
    return "".join(parts) if ends_plain else "".join(parts) + _RESET


def one_line(text: str) -> str:
    """The text on one line and without colours, to stand within words of kedge."""
    return _shown(_STYLE.sub("", text), _CONTROL_OR_NEWLINE)


def without_colours(text: str) -> str:
    """What `terminal_text` has made, without its colours."""
    return _STYLE.sub("", text)


def folded(text: str, width: int) -> list[str]:
    """What `terminal_text` has made, in rows that no terminal shows wider than `width` columns. A row keeps its
    colours to itself; the next one begins with the same."""
    if len(text) <= (width if text.isascii() else width // 2) and "\t" not in text:
        return [text]
    rows, row, used, styles = [], "", 0, [""]
    for number, part in enumerate(_STYLE.split(text.expandtabs(8))):
        if number % 2:
            row += part
            styles = [""] if part in (_RESET, "\x1b[m") else [*styles, part][-_MOST_STYLES:]
            continue
        for piece, columns in _pieces(part, width, used):
            if used + columns > width:
                begun = "".join(styles)
                rows.append(row + _RESET * bool(begun))
                row, used = begun, 0
            row += piece
            used += columns
    return [*rows, row]


def _pieces(text: str, width: int, used: int) -> Iterator[tuple[str, int]]:
    """The text cut where a row of `width`, of which so much is `used`, may end, and how many columns each piece has at
    most: a mark above a letter counts, too, since some terminals give it a column of its own."""
    if text.isascii():
        first = max(0, width - used)
        for start, end in [(0, first), *((at, at + width) for at in range(first, len(text), width))]:
            if piece := text[start:end]:
                yield piece, len(piece)
    else:
        for character in text:
            yield character, _columns(character)


def _columns(character: str) -> int:
    if character.isascii():
        return 1
    # What Python does not know, or what a font defines, may be wide.
    wide = unicodedata.east_asian_width(character) in "WF" or unicodedata.category(character) in ("Cn", "Co")
    return 2 if wide else 1


def _shown(text: str, unsafe: re.Pattern[str]) -> str:
    # One pass for each kind of character and not one call for each character: a line may be a hundred million NULs.
    while found := unsafe.search(text):
        text = text.replace(found[0], _name(found[0]))
    return text


def _name(character: str) -> str:
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return f"^{chr(code ^ 0x40)}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
