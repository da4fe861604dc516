"""The image checker against Debian's docker-registry."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from . import real_registry
from .checking import Checking
from .real_registry import PASSWORD, USER, TokenServer
from .tls_servers import Certificate

LOGIN = {"username": USER, "password": PASSWORD}
SRC = Path(__file__).parents[2] / "src"

pytestmark = [
    pytest.mark.skipif(not shutil.which(tool), reason=f"there is no {tool}: apt-get install {tool}")
    for tool in ("docker-registry", "openssl")
]


class Registries(NamedTuple):
    """Addresses of registries with the same images: for everybody, for those with the password, for those with a token.
    `digest` is the OCI index's."""

    open: str
    basic: str
    bearer: str
    tokens: TokenServer
    digest: str


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a registry that has the images, and a digest."""
    folder = tmp_path_factory.mktemp("storage")
    with real_registry.registry(tmp_path_factory.mktemp("push"), folder) as address:
        return folder, real_registry.push(address)


@pytest.fixture(scope="module")
def registries(tmp_path_factory: pytest.TempPathFactory, storage: tuple[Path, str]) -> Iterator[Registries]:
    images, digest = storage
    keys = tmp_path_factory.mktemp("keys")
    signer = Certificate(keys / "signer.pem", keys / "signer.key")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=signer", "-days", "2"]
    subprocess.run([*command, "-keyout", signer.key, "-out", signer.file], check=True, capture_output=True)
    folders = [tmp_path_factory.mktemp(name) for name in ("open", "basic", "bearer")]
    with (
        real_registry.token_server(signer) as tokens,
        real_registry.registry(folders[0], images) as everybody,
        real_registry.registry(folders[1], images, real_registry.basic(folders[1])) as basic,
        real_registry.registry(folders[2], images, real_registry.tokens(tokens.url, signer)) as bearer,
    ):
        yield Registries(everybody, basic, bearer, tokens, digest)


@pytest.fixture
def checking(tmp_path: Path) -> Checking:
    return Checking(tmp_path)


@pytest.mark.parametrize("tag", real_registry.TAGS.values())
@pytest.mark.parametrize("kind", ["open", "basic", "bearer"])
def test_every_kind_of_manifest_is_found(kind: str, tag: str, registries: Registries, checking: Checking) -> None:
    address = getattr(registries, kind)
    found = checking.check(f"{address}/team/private:{tag}", LOGIN)
    assert found.code == 0, found.log
    assert found.last.endswith(f"the image {address}/team/private:{tag} can be pulled: {address} has it")


@pytest.mark.parametrize("kind", ["open", "basic", "bearer"])
def test_digests_are_found_with_and_without_a_tag(kind: str, registries: Registries, checking: Checking) -> None:
    name = f"{getattr(registries, kind)}/team/private"
    for image in (f"{name}@{registries.digest}", f"{name}:what-ever@{registries.digest}"):
        assert checking.check(image, LOGIN).last.endswith("has it")
    other = checking.check(f"{name}:latest@sha256:{'0' * 64}", LOGIN)
    assert other.code == (0 if kind == "open" else 1), other.log


@pytest.mark.parametrize("kind", ["basic", "bearer"])
@pytest.mark.parametrize("image", ["team/private:missing", "team/missing", "missing:1"])
def test_a_missing_image_fails(kind: str, image: str, registries: Registries, checking: Checking) -> None:
    address = getattr(registries, kind)
    found = checking.check(f"{address}/{image}", LOGIN)
    assert found.code == 1, found.log
    assert found.last.startswith("ERROR")
    assert f"{address}/{image} cannot be pulled: {address} has no such image: check its name and tag" in found.last


def test_a_registry_for_everybody_may_hide_images(registries: Registries, checking: Checking) -> None:
    """The answer 404 to a request without credentials is no proof."""
    found = checking.check(f"{registries.open}/team/missing", LOGIN)
    assert (found.code, found.last.split(" ")[0]) == (0, "WARNING")
    assert "404 Not Found to a request without credentials" in found.last


@pytest.mark.parametrize("kind", ["basic", "bearer"])
def test_wrong_credentials_fail(kind: str, registries: Registries, checking: Checking) -> None:
    found = checking.check(f"{getattr(registries, kind)}/team/private", {"username": USER, "password": "wr&ng"})
    assert found.code == 1, found.log
    assert "check username and password in 'auth' of the image's prerequisite" in found.last
    assert "wr&ng" not in found.log


@pytest.mark.parametrize("kind", ["basic", "bearer"])
def test_missing_credentials_fail(kind: str, registries: Registries, checking: Checking) -> None:
    """The first answer 401 is usual. The one after it, or no way to go on, is definite."""
    found = checking.check(f"{getattr(registries, kind)}/team/private")
    assert found.code == 1, found.log
    assert "the job gives no credentials for it" in found.last
    assert "set 'auth' with username and password in its prerequisite" in found.last


@pytest.mark.parametrize("names", [["token"], ["access_token"]])
def test_a_token_for_everybody_opens_public_images(
    names: list[str], registries: Registries, checking: Checking
) -> None:
    registries.tokens.names[:] = names
    registries.tokens.requests.clear()
    assert checking.check(f"{registries.bearer}/team/public").last.endswith("has it")
    ((path, given),) = registries.tokens.requests
    assert given is None
    assert (
        path.partition("?")[2].split("&").sort() == ["scope=repository%3Ateam%2Fpublic%3Apull", "service=tests"].sort()
    )


def test_the_log_has_requests_and_no_secrets(registries: Registries, checking: Checking) -> None:
    registries.tokens.requests.clear()
    found = checking.check(f"{registries.bearer}/team/private", LOGIN)
    url = f"http://{registries.bearer}/v2/"
    manifest = f"HEAD {url}team/private/manifests/latest"
    lines = [line.split(" - ")[-1] for line in found.log.splitlines()]
    assert lines == [
        f"checking the image {registries.bearer}/team/private",
        f"HEAD {url}: 401 Unauthorized",
        f"{manifest}: 401 Unauthorized",
        f"GET {registries.tokens.url}/token: 200 OK",
        f"{manifest}: 200 OK",
        f"the image {registries.bearer}/team/private can be pulled: {registries.bearer} has it",
    ]
    assert [given for _, given in registries.tokens.requests] == [real_registry.BASIC]


def test_credentials_come_from_secrets_as_they_are(registries: Registries, checking: Checking) -> None:
    checking.secrets.write_text(yaml.safe_dump({"registry": {"password": PASSWORD}, "users": [USER]}))
    auth = {"username": "<% $secrets.users[0] %>", "password": "<%$secrets.registry.password%>"}
    assert checking.check(f"{registries.basic}/team/private", auth).last.endswith("has it")


def test_the_address_of_the_credentials_says_how_to_ask(registries: Registries, checking: Checking) -> None:
    for uri in (registries.basic, f"http://{registries.basic}", f" http://{registries.basic}/v1/ "):
        found = checking.check(f"{registries.basic}/team/private", LOGIN | {"registryuri": uri})
        assert found.last.endswith("has it"), found.log


def test_credentials_for_another_registry_are_not_sent(registries: Registries, checking: Checking) -> None:
    found = checking.check(f"{registries.basic}/team/private", LOGIN | {"registryuri": "https://index.docker.io/v1/"})
    assert found.code == 1
    assert "'auth' of the image is ignored: its registryuri is not the image's registry" in found.log
    assert "the job gives no credentials for it" in found.last


def test_a_registry_with_a_certificate(
    storage: tuple[Path, str], own_certificate: Certificate, tmp_path: Path, checking: Checking
) -> None:
    """On the loopback interface plain HTTP is tried first, without credentials."""
    script = "from kedge.dropin.programs import main; raise SystemExit(main('imageChecker'))"
    with real_registry.registry(tmp_path, storage[0], real_registry.basic(tmp_path), own_certificate) as address:
        results = []
        for trusted, uri in ((own_certificate.file, ""), (own_certificate.file, f"https://{address}"), (tmp_path, "")):
            checking.job(f"{address}/team/private", LOGIN | {"registryuri": uri})
            environment = os.environ | checking.environment | {"SSL_CERT_FILE": str(trusted), "PYTHONPATH": str(SRC)}
            done = subprocess.run([sys.executable, "-c", script], env=environment, stderr=subprocess.PIPE, text=True)
            results.append((done.returncode, done.stderr))
    assert [code for code, _ in results] == [0, 0, 0], results
    assert all(log.splitlines()[-1].endswith("has it") for _, log in results[:2]), results
    assert f"HEAD http://{address}/v2/: 400 Bad Request" in results[0][1]
    assert "http://" not in results[1][1]
    assert "its certificate is not trusted" in results[2][1].splitlines()[-1]


def test_a_mirror_is_asked_first(registries: Registries, checking: Checking) -> None:
    """Its images are those of the registry that it mirrors, here one that does not exist."""
    (checking.config / "image_mirrors").write_text(f"# ours\nreg.invalid=http://{registries.open}/  # fast\n")
    found = checking.check("reg.invalid/team/private", LOGIN)
    assert found.last.endswith(f"{registries.open} has it")
    assert "reg.invalid/v2" not in found.log
    assert checking.check("reg.invalid/team/missing").code == 0, "a doubt at the mirror is a doubt"


def test_what_the_mirror_refuses_the_registry_may_have(registries: Registries, checking: Checking) -> None:
    """The job's credentials are not the mirror's."""
    registries.tokens.requests.clear()
    checking.environment["PAI_IMAGE_MIRRORS"] = f"{registries.basic}=http://{registries.bearer}"
    found = checking.check(f"{registries.basic}/team/private", LOGIN)
    assert found.last.endswith(f"{registries.basic} has it")
    assert "the mirror does not have it" in found.log
    assert [given for _, given in registries.tokens.requests] == [None]
