from __future__ import annotations

import pytest

from kedge.http_challenges import Challenge, parse

HUB = 'Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:library/x:pull"'


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (
            HUB,
            [
                (
                    "bearer",
                    {
                        "realm": "https://auth.docker.io/token",
                        "service": "registry.docker.io",
                        "scope": "repository:library/x:pull",
                    },
                )
            ],
        ),
        (
            'Bearer realm="r",scope="repository:x:pull,push"',
            [("bearer", {"realm": "r", "scope": "repository:x:pull,push"})],
        ),
        ('bEARER  REALM = "a\\"b\\\\c=d" ,\tservice=x', [("bearer", {"realm": 'a"b\\c=d', "service": "x"})]),
        ("Bearer realm=https://r/t?a=b", [("bearer", {"realm": "https://r/t?a=b"})]),
        ("Basic", [("basic", {})]),
        (
            'NTLM TlRM==, Basic realm="a, Bearer realm=b", Bearer realm="r"',
            [("ntlm", {}), ("basic", {"realm": "a, Bearer realm=b"}), ("bearer", {"realm": "r"})],
        ),
        (', ,Basic realm=x, , charset="UTF-8",', [("basic", {"realm": "x", "charset": "UTF-8"})]),
        ("Basic realm=first, realm=second", [("basic", {"realm": "first"})]),
        ('Basic realm=""', [("basic", {"realm": ""})]),
        ("", []),
    ],
)
def test_a_header_holds_challenges(header: str, expected: list[tuple[str, dict[str, str]]]) -> None:
    assert parse([header]) == [Challenge(*each) for each in expected]


def test_each_header_adds_its_challenges() -> None:
    assert [each.scheme for each in parse(['Basic realm="x"', HUB])] == ["basic", "bearer"]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ('Basic realm="x', "a quotation mark is not closed"),
        ('Basic realm="x\\"', "a quotation mark is not closed"),
        ('realm="x"', "a parameter stands before the first scheme"),
        ('Bearer realm="x"y', "something stands after the closing quotation mark"),
        ('Digest realm="x" qop="auth"', "something stands after the closing quotation mark"),
        ("Basic a=b c", "a value is neither a word nor in quotation marks"),
        ("Basic a=b, c=", "a value is neither a word nor in quotation marks"),
        ("Basic one two", "a parameter is not written as name=value"),
    ],
)
def test_other_headers_are_errors(header: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        parse([header])
