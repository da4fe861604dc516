"""Untrusted text on a terminal."""

from __future__ import annotations

import pytest

from kedge.terminal_text import decoded, folded, is_plain, one_line, terminal_text


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"plain \xc3\xa4\tcolumn", "plain ä\tcolumn"),
        (b"\x1b[31mred\x1b[0m done", "\x1b[31mred\x1b[0m done\x1b[0m"),
        (b"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        (b"\x1b[1;38:5:9mred\x1b[0m", "\x1b[1;38:5:9mred\x1b[0m"),
        (b"\x1b[01;38;5;208mdark\x1b[m", "\x1b[01;38;5;208mdark\x1b[m"),
        (b"\x1b[48;2;1;2;3;4:3mx\x1b[0m", "\x1b[48;2;1;2;3;4:3mx\x1b[0m"),
        (b"\x1b[31mred to the end", "\x1b[31mred to the end\x1b[0m"),
        (b"\x1b[2J\x1b[H", "^[[2J^[[H"),
        (b"\x1b]0;title\x07", "^[]0;title^G"),
        (b"\x1b]52;c;cm0gLXJm\x1b\\", "^[]52;c;cm0gLXJm^[\\"),
        (b"\x1bPq#0\x1b\\", "^[Pq#0^[\\"),
        (b"\x1bc\x1b7\x1b8", "^[c^[7^[8"),
        (b"\x1b[8mhidden\x1b[31;8m", "^[[8mhidden^[[31;8m"),
        (b"\x1b[12mfont\x1b[?4m\x1b[>4;1m", "^[[12mfont^[[?4m^[[>4;1m"),
        (b"\x1b[38;5mno colour\x1b[38m", "^[[38;5mno colour^[[38m"),
        (b"\xc2\x9b2J", "\\u009b2J"),
        (b"\x00\x08\x7f\x0b\x0c", "^@^H^?^K^L"),
        (b"a\rb\n", "a^Mb^J"),
        (b"\xff\x9b2J\xc4", "\\xff\\x9b2J\\xc4"),
        ("a\u202eb\u2066c\u200fd".encode(), "a\\u202eb\\u2066c\\u200fd"),
        ("a\u200bb\u2028c\ufeff\U000e0041".encode(), "a\\u200bb\\u2028c\\ufeff\\U000e0041"),
        ("👩\u200d💻 ❤\ufe0f می\u200cخواهم \u00a0".encode(), "👩\u200d💻 ❤\ufe0f می\u200cخواهم \u00a0"),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),
    ],
)
def test_only_colours_reach_the_terminal(line: bytes, shown: str) -> None:
    assert terminal_text(decoded(line)) == shown


def test_plain_lines_are_recognised() -> None:
    assert is_plain(b"plain\tASCII")
    assert not any(map(is_plain, [b"\x1b[m", b"\r", b"\x7f", b"\x00", "ä".encode(), b"\x9b"]))


def test_messages_of_kedge_keep_their_own_lines() -> None:
    assert terminal_text("a\r\nb\n\x1b[31mc\n\rd", newlines=True) == "a\nb\n\x1b[31mc\n^Md\x1b[0m"
    assert terminal_text("\x1b[1mbold\x1b[0m\n", newlines=True) == "\x1b[1mbold\x1b[0m\n"
    assert terminal_text("\udcff", newlines=True) == "\\udcff"


def test_quoted_text_is_on_one_line_and_without_colours() -> None:
    assert one_line("\x1b[31mred\x1b[0m\nkedge: \x1b[2J\r") == "red^Jkedge: ^[[2J^M"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", [""]),
        ("1234567890", ["1234567890"]),
        ("12345678901", ["1234567890", "1"]),
        ("1234567890" * 2, ["1234567890"] * 2),
        ("ab\tcd\tef", ["ab      cd", "      ef"]),
        ("äöü" * 4, ["äöüäöüäöüä", "öü"]),
        ("漢字漢字漢字", ["漢字漢字漢", "字"]),
        ("123456789漢", ["123456789", "漢"]),
        ("\x1b[31m123456789012\x1b[0m3", ["\x1b[31m1234567890\x1b[0m", "\x1b[31m12\x1b[0m3"]),
        ("\x1b[31m1\x1b[0m2345678901", ["\x1b[31m1\x1b[0m234567890", "1"]),
    ],
)
def test_rows_are_no_wider_than_the_terminal(text: str, rows: list[str]) -> None:
    assert folded(text, 10) == rows
