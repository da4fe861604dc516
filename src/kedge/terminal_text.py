"""Making untrusted text safe for a terminal: colours pass, every other control sequence is shown as text.

The output of a task, a plugin or a server can then not move the cursor, erase text, set titles or the clipboard, or
reorder or hide the text around it. Control characters are shown as in `cat -v` (`^[`), others by their code
(`\\u202e`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from kedge.late_patterns import late_pattern

_RESET = "\x1b[0m"
# Colours and styles (ECMA-48 SGR), except those that hide text (8) or change fonts (10 to 20) and may outlast a reset.
_COLOUR = (
    r"0{0,2}(?:[0-79]|2[1-9]|[34][0-79]|5[3-59]|9[0-7]|10[0-7]|4:[0-5]"
    r"|[345]8(?:;5;\d{1,3}|;2(?:;\d{1,3}){3}|:[25](?::\d{0,3}){1,5}))?"
)
_STYLE = late_pattern(rf"(\x1b\[{_COLOUR}(?:;{_COLOUR}){{0,15}}m)")
# Control characters; marks of direction, which reorder text; characters without width; line and paragraph separators;
# surrogates. The joiners that many scripts and emoji need are harmless.
_UNSAFE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\ud800-\udfff"
)
_CONTROL = late_pattern(f"[{_UNSAFE}]")
_CONTROL_OR_NEWLINE = late_pattern(f"[{_UNSAFE}\n]")
_BYTES = bytes(set(range(32)) - set(b"\t\n")) + b"\x7f"
_READABLE = 1000  # characters
_MAX_STYLES = 8  # that are carried over to the next row


def decoded(line: bytes) -> str:
    """Decode bytes of a log; invalid UTF-8 is shown as `\\xff`."""
    return line.decode("utf-8", "backslashreplace")


def is_plain(text: bytes) -> bool:
    """Whether bytes are ASCII without control characters other than tab and newline, so that each of their lines needs
    no treatment."""
    return text.isascii() and len(text.translate(None, _BYTES)) == len(text)


def terminal_text(text: str, newlines: bool = False) -> str:
    """The text with its control characters made visible, except tabs and (with `newlines`) line feeds. Its colours are
    reset at the end."""
    unsafe = _CONTROL if newlines else _CONTROL_OR_NEWLINE
    if _is_harmless(text.replace("\n", "") if newlines else text) or not unsafe.search(text):
        return text
    parts = _STYLE.split(text.replace("\r\n", "\n") if newlines else text)
    parts[::2] = [_shown(part, unsafe) if part else part for part in parts[::2]]
    ends_plain = len(parts) == 1 or (parts[-2] in (_RESET, "\x1b[m") and not parts[-1].strip("\n"))
    return "".join(parts) if ends_plain else "".join(parts) + _RESET


def one_line(text: str) -> str:
    """The text on one line and without colours, for use inside a message of kedge."""
    return text if _is_harmless(text) else _shown(_STYLE.sub("", text), _CONTROL_OR_NEWLINE)


def shortened(text: str) -> str:
    """The text if it is short enough to be read; otherwise its beginning and its length."""
    return text if len(text) <= _READABLE else f"{text[:_READABLE]}… ({len(text):,} characters)"


def _is_harmless(text: str) -> bool:
    """Whether no pattern has to look at the text; compiling them takes longer than most texts are worth."""
    return text.isprintable()


def without_colours(text: str) -> str:
    """A result of `terminal_text` without its colours."""
    return _STYLE.sub("", text)


def folded(text: str, width: int) -> list[str]:
    """A result of `terminal_text`, cut into rows that no terminal shows wider than `width` columns. Each row resets its
    colours at the end, and the next row sets them again."""
    if len(text) <= (width if text.isascii() else width // 2) and "\t" not in text:
        return [text]
    rows, row, used, styles = [], "", 0, [""]
    for number, part in enumerate(_STYLE.split(text.expandtabs(8))):
        if number % 2:
            row += part
            styles = [""] if part in (_RESET, "\x1b[m") else [*styles, part][-_MAX_STYLES:]
            continue
        for piece, columns in _pieces(part, width, used):
            if used + columns > width:
                active = "".join(styles)
                rows.append(row + _RESET * bool(active))
                row, used = active, 0
            row += piece
            used += columns
    return [*rows, row]


def _pieces(text: str, width: int, used: int) -> Iterator[tuple[str, int]]:
    """The text cut where a row of `width` columns, `used` of them taken, may end. Each piece comes with the largest
    number of columns it can take: a combining mark counts as one, since some terminals give it its own column."""
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
    # Characters that are unassigned in Python's database or defined by a font may be wide.
    wide = unicodedata.east_asian_width(character) in "WF" or unicodedata.category(character) in ("Cn", "Co")
    return 2 if wide else 1


def _shown(text: str, unsafe: re.Pattern[str]) -> str:
    # One pass per distinct character, not one call per character: a line may have a hundred million NULs.
    while found := unsafe.search(text):
        text = text.replace(found[0], _name(found[0]))
    return text


def _name(character: str) -> str:
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return f"^{chr(code ^ 0x40)}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
