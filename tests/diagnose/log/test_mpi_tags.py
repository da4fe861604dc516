"""Lines that mpirun has cut into pieces are read as their processes wrote them."""

from __future__ import annotations

from kedge.diagnose.log.mpi_tags import joined


def test_text_without_tags_is_unchanged() -> None:
    assert joined(b"a\nb [1,2] <stderr>\n") == b"a\nb [1,2] <stderr>\n"


def test_whole_lines_are_unchanged() -> None:
    text = b"[1,0]<stdout>:a\n[1,1]<stderr>:  b\nmpirun: c\n"
    assert joined(text) == text


def test_pieces_of_one_line_are_joined() -> None:
    text = b"[1,2]<stderr>:KeyError[1,2]<stderr>:: [1,2]<stderr>:'lr'[1,2]<stderr>:\nnext\n"
    assert joined(text) == b"[1,2]<stderr>:KeyError: 'lr'\nnext\n"


def test_pieces_of_ranks_that_write_at_the_same_time_are_separated() -> None:
    text = b"[1,2]<stdout>:rank[1,1]<stdout>:rank[1,1]<stdout>: 1\n[1,2]<stdout>: 2[1,2]<stdout>:\n"
    assert joined(text) == b"[1,1]<stdout>:rank 1\n[1,2]<stdout>:rank 2\n"


def test_a_line_that_never_ends_is_not_lost() -> None:
    assert joined(b"[1,0]<stderr>:half[1,1]<stderr>:x\n") == b"[1,1]<stderr>:x\n\n[1,0]<stderr>:half"
