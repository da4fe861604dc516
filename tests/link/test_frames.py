"""Messages on the wire."""

from __future__ import annotations

import json

import pytest

from kedge.link.frames import (
    BODY_LIMIT,
    FIRST_HEADER_LIMIT,
    HEADER_LIMIT,
    BadFrame,
    FrameReader,
    LinkFrame,
    SharedValue,
    encoded,
    encoded_pieces,
)


def trusting() -> FrameReader:
    reader = FrameReader()
    reader.trust()
    return reader


def frames(reader: FrameReader, data: bytes) -> list[LinkFrame]:
    reader.feed(data)
    return list(iter(reader.next, None))


def raw(header: bytes, body: bytes = b"") -> bytes:
    return len(header).to_bytes(4, "big") + len(body).to_bytes(4, "big") + header + body


@pytest.mark.parametrize("piece", [1, 2, 7, 8, 9, 100, 10_000])
def test_messages_survive_any_cutting(piece):
    sent = [LinkFrame("a", {"kind": "a", "text": "ü\ud800"}, b"x" * n) for n in (0, 1, 300)] * 2
    data = b"".join(encoded(frame.header, frame.body) for frame in sent)
    reader, found = trusting(), []
    for at in range(0, len(data), piece):
        found += frames(reader, data[at : at + piece])
    assert [frame.body for frame in found] == [frame.body for frame in sent]
    assert {frame.header["text"] for frame in found} == {"ü?"}, "what is no character is replaced"


@pytest.mark.parametrize("names", [(), ("first",), ("second",), ("first", "second")])
def test_a_value_that_many_messages_share_is_written_like_any_other(names):
    header = {"first": {"a": [1, "ü"]}, "kind": "a", "second": [], "text": "}"}
    shared = {name: SharedValue(header[name]) for name in names}
    pieces = encoded_pieces({**header, **shared}, b"body")
    assert frames(trusting(), b"".join(pieces)) == [LinkFrame("a", header, b"body")]
    for value in shared.values():
        assert any(piece is value.text for piece in pieces)


def test_a_reader_keeps_nothing_of_what_was_taken():
    reader = trusting()
    assert len(frames(reader, encoded({"kind": "a"}, b"x" * BODY_LIMIT))) == 1
    assert not reader._data


@pytest.mark.parametrize(
    "header",
    [b"", b"x", b"[]", b"1", b"{}", b'{"kind": 1}', b'{"kind": "a", "n": NaN}', b'{"kind":' + b"[" * 60_000, b"\xff"],
    ids=lambda header: repr(header[:30]),
)
def test_what_is_no_message_is_refused(header):
    with pytest.raises(BadFrame):
        frames(FrameReader(), raw(header))


def test_the_controller_sends_what_users_have_written():
    deep = b"[" * 500 + b"]" * 500
    header = b'{"kind": "a", "n": %d, "x": [Infinity], "deep": %s}' % (10**40, deep)
    with pytest.raises(BadFrame):
        frames(trusting(), raw(header))
    reader = FrameReader()
    reader.trust_values()
    (frame,) = frames(reader, raw(header))
    assert (frame.header["n"], frame.header["x"]) == (10**40, [float("inf")])
    with pytest.raises(BadFrame):
        frames(reader, raw(b'{"kind":' + b"[" * 60_000))


def test_large_headers_are_refused_by_their_length_alone():
    reader = FrameReader()
    with pytest.raises(BadFrame, match="header of 65537 bytes; the limit is 65536"):
        frames(reader, (FIRST_HEADER_LIMIT + 1).to_bytes(4, "big") + bytes(4))
    assert frames(FrameReader(), (FIRST_HEADER_LIMIT).to_bytes(4, "big") + bytes(4)) == []
    reader = trusting()
    assert frames(reader, (HEADER_LIMIT).to_bytes(4, "big") + bytes(4)) == []
    with pytest.raises(BadFrame, match="body of 4294967295 bytes; the limit is 1048576"):
        frames(trusting(), bytes(4) + b"\xff" * 4)


def test_who_is_not_known_sends_no_body():
    with pytest.raises(BadFrame, match="body of 1 bytes; the limit is 0"):
        frames(FrameReader(), raw(b'{"kind": "a"}', b"x"))


def test_too_large_messages_are_not_sent():
    with pytest.raises(BadFrame, match="body"):
        encoded({"kind": "a"}, bytes(BODY_LIMIT + 1))
    with pytest.raises(BadFrame, match="header"):
        encoded({"kind": "x" * HEADER_LIMIT})


def test_a_header_is_json():
    data = encoded({"kind": "a", "n": 1}, b"body")
    assert json.loads(data[8:-4]) == {"kind": "a", "n": 1}
    assert (data[:8], data[-4:]) == (len(data[8:-4]).to_bytes(4, "big") + (4).to_bytes(4, "big"), b"body")
