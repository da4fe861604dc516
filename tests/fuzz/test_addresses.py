"""References to prerequisites of any form."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kedge.spec import addresses

PIECES = [
    "http://",
    "https://",
    "HTTP://",
    "marketplace://",
    "marketplace://name/",
    "marketplace://prerequisites/itemId/",
    "[::1",
    "[::1]",
    "]",
    "[",
    ":",
    ":99999",
    ":x",
    "/",
    "//",
    "@",
    "#",
    "?",
    "%",
    "%00",
    "%ff",
    "%zz",
    "..",
    "./",
    "../",
    "/a",
    "a",
    "xn--",
    "xn--a.b",
    "ä",
    "\u2100",
    "\u2260",
    "\ud800",
    "\0",
    "\n",
    " ",
    "\x7f",
    "data",
    "host",
    "1.2.3.4",
    "0x7f.1",
    "\uff0e",
    "a" * 300,
    "9" * 5000,
]
references = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=8).map("".join)


@given(references)
@settings(max_examples=25)
@example("http://[::1/x")
@example("http://a\u2100b/x")
@example("http://a:" + "9" * 5000 + "/")
def test_a_reference_is_an_address_a_name_or_refused(reference: str) -> None:
    try:
        address = addresses.parse(reference)
    except ValueError:
        return
    if address is not None:
        assert address.kind in (addresses.FILE, addresses.HTTP, addresses.MARKETPLACE)
        assert address.place
