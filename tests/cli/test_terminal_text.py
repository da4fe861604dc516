"""Lines of tasks on a terminal."""

from __future__ import annotations

import pytest

from kedge.cli.terminal_text import terminal_text


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"plain \xc3\xa4\tcolumn", b"plain \xc3\xa4\tcolumn"),
        (b"\x1b[31mred\x1b[0m done", b"\x1b[31mred\x1b[0m done\x1b[0m"),
        (b"\x1b[1;38:5:9mred\x1b[0m", b"\x1b[1;38:5:9mred\x1b[0m"),
        (b"\x1b[31mred to the end", b"\x1b[31mred to the end\x1b[0m"),
        (b"\x1b[2J\x1b[H", b"^[[2J^[[H"),
        (b"\x1b]0;title\x07", b"^[]0;title^G"),
        (b"\x1b]52;c;cm0gLXJm\x1b\\", b"^[]52;c;cm0gLXJm^[\\"),
        (b"\x1bc", b"^[c"),
        (b"\xc2\x9b2J", b"\\x9b2J"),
        (b"\x00\x08\x7f", b"^@^H^?"),
        (b"\xff\x9b", b"\xff\x9b"),
    ],
)
def test_only_colours_reach_the_terminal(line: bytes, shown: bytes) -> None:
    assert terminal_text(line) == shown
