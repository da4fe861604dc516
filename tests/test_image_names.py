from __future__ import annotations

import re

import pytest

from kedge.image_names import ImageName, is_host, parse, split_registry, without_tag

SHA256 = f"sha256:{'0a' * 32}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ubuntu", ImageName(None, "library/ubuntu")),
        ("golang:1.12.6-alpine", ImageName(None, "library/golang", "1.12.6-alpine")),
        ("user/repo:tag", ImageName(None, "user/repo", "tag")),
        (
            "registry.domain:5000/user-name/repo-0:tag-0.version",
            ImageName("registry.domain:5000", "user-name/repo-0", "tag-0.version"),
        ),
        ("test.azurecr.io/test-base:4dc8", ImageName("test.azurecr.io", "test-base", "4dc8")),
        ("localhost/x", ImageName("localhost", "x")),
        ("localhost:5000/a/b/c", ImageName("localhost:5000", "a/b/c")),
        ("[::1]:5000/x", ImageName("[::1]:5000", "x")),
        ("pytorch/pytorch:2.2.0-Cuda12_RC", ImageName(None, "pytorch/pytorch", "2.2.0-Cuda12_RC")),
        ("x:_", ImageName(None, "library/x", "_")),
        (f"x:{'t' * 128}", ImageName(None, "library/x", "t" * 128)),
        (f"x@{SHA256}", ImageName(None, "library/x", None, SHA256)),
        (f"reg.io/a/b:Tag@{SHA256}", ImageName("reg.io", "a/b", "Tag", SHA256)),
        (f"x@sha512:{'f' * 128}", ImageName(None, "library/x", None, f"sha512:{'f' * 128}")),
        (f"x@multi+b64_u-x.y:{'a' * 32}", ImageName(None, "library/x", None, f"multi+b64_u-x.y:{'a' * 32}")),
        ("f---g/a--b.c_d__e", ImageName(None, "f---g/a--b.c_d__e")),
    ],
)
def test_a_name_has_parts(text: str, expected: ImageName) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the name of the repository is missing"),
        (":tag", "the name of the repository is missing"),
        ("reg.io/", "the name of the repository is missing"),
        ("localhost:5000/~repo", "'~repo' is not the name of a repository: use lower-case letters"),
        ("localhost/user@name/repo:tag", "'name/repo:tag' is not a digest: write it as sha256:<64 hexadecimal digits>"),
        ("PyTorch/pytorch", "'PyTorch/pytorch' is not the name of a repository"),
        ("a:b/c", "'a:b' is not the address of a registry"),
        ("reg.io:99999/x", "'reg.io:99999' is not the address of a registry"),
        ("[::1/x", "'[::1' is not the address of a registry"),
        ("a..b/c", "'a..b' is not the address of a registry"),
        ("docker://ubuntu", "the name of an image has no scheme"),
        ("x:", "'' is not a tag"),
        ("x:.t", "'.t' is not a tag"),
        ("x:-t", "'-t' is not a tag"),
        (f"x:{'t' * 129}", "is not a tag: use up to 128 letters"),
        ("x@", "'' is not a digest"),
        (f"x@sha256:{'0' * 63}", "write it as sha256:<64 hexadecimal digits>"),
        (f"x@sha512:{'0' * 64}", "write it as sha512:<128 hexadecimal digits>"),
        (f"x@sha256:{'g' * 64}", "is not a digest"),
        (f"x@1a:{'0' * 32}", "is not a digest"),
        ("a/" * 130 + "b", "the name of the repository is longer than 255 characters"),
        ("x\ny", r"'x\ny' is not the name of a repository"),
        *(
            (name, "is not the name of a repository")
            for name in (" x", "a//b", "/a", "a/", "-a", "a-", "a___b", "a._b")
        ),
    ],
)
def test_other_texts_are_no_names(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse(text)


def test_the_digest_is_asked_for_before_the_tag() -> None:
    assert parse(f"x:1@{SHA256}").manifest == SHA256
    assert parse("x:1").manifest == "1"
    assert parse("x").manifest == "latest"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("h:5/x:1", "h:5/x"), ("h:5/x", "h:5/x"), (f"x:1@{SHA256}", "x"), ("a/b:c", "a/b"), ("x", "x")],
)
def test_a_name_without_its_tag(text: str, expected: str) -> None:
    assert without_tag(text) == expected


def test_only_what_looks_like_a_host_is_a_registry() -> None:
    assert split_registry("user/repo") == (None, "user/repo")
    assert split_registry("reg.io/repo") == ("reg.io", "repo")
    assert split_registry("localhost/repo") == ("localhost", "repo")
    assert split_registry("reg.io") == (None, "reg.io")


@pytest.mark.parametrize("text", ["a", "a.b.", "1.2.3.4:65535", "[fe80::1]", "[::ffff:1.2.3.4]:1", "my_host.lan"])
def test_hosts(text: str) -> None:
    assert is_host(text)


@pytest.mark.parametrize(
    "text", ["", "a:", "a:0", "a:x", "a b", "-a", "a\r\nb", "[1.2.3.4]", "[::1", "[::1]x", "a:1:2", "a@b"]
)
def test_no_hosts(text: str) -> None:
    assert not is_host(text)
