"""Where the container engine is looked for, and what is said when there is none."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path

import pytest

from kedge.engines.container import connection, engine_address
from kedge.errors import CannotRun


def listening(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen()
    return made


@pytest.mark.parametrize("variable", ["DOCKER_HOST", "CONTAINER_HOST"])
def test_the_variables_count_first(tmp_path: Path, variable: str) -> None:
    with listening(tmp_path / "s"):
        assert connection.address({variable: f"unix://{tmp_path}/s"}) == f"unix://{tmp_path}/s"


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:2375", "ssh://me@far"])
def test_an_engine_on_another_machine_is_refused(address: str) -> None:
    with pytest.raises(CannotRun, match="must run on this machine"):
        connection.address({"DOCKER_HOST": address})


def test_a_bare_path_is_told_how_it_is_written() -> None:
    with pytest.raises(CannotRun, match=r"unix:///run/docker\.sock"):
        connection.address({"DOCKER_HOST": "/run/docker.sock"})


def test_a_named_socket_that_is_not_there_is_an_error_not_a_detour() -> None:
    with pytest.raises(CannotRun, match="there is no such socket"):
        connection.address({"DOCKER_HOST": "unix:///nowhere/s"})


def test_a_context_of_docker_is_followed(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"currentContext": "mine"}')
    meta = tmp_path / "contexts" / "meta" / hashlib.sha256(b"mine").hexdigest()
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text(f'{{"Endpoints": {{"docker": {{"Host": "unix://{tmp_path}/s"}}}}}}')
    with listening(tmp_path / "s"):
        assert connection.address({"DOCKER_CONFIG": str(tmp_path)}) == f"unix://{tmp_path}/s"
    (meta / "meta.json").write_text('{"Endpoints": {"docker": {"Host": "ssh://far"}}}')
    with pytest.raises(CannotRun, match="the docker context mine is ssh://far"):
        connection.address({"DOCKER_CONFIG": str(tmp_path)})


@pytest.mark.parametrize("text", ["[]", '{"currentContext": 5}', "no JSON"])
def test_settings_of_docker_that_make_no_sense_name_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    assert engine_address.named({"DOCKER_CONFIG": str(tmp_path)}) is None


def test_sockets_of_the_user_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "podman").mkdir()
    with listening(tmp_path / "podman" / "podman.sock"):
        found = list(engine_address.sockets({"XDG_RUNTIME_DIR": str(tmp_path)}))
        assert f"{tmp_path}/podman/podman.sock" in found
        monkeypatch.setattr(
            engine_address, "sockets", lambda environment: iter([f"{tmp_path}/x", f"{tmp_path}/podman/podman.sock"])
        )
        assert connection.address({"PATH": ""}) == f"unix://{tmp_path}/podman/podman.sock"


def test_without_any_the_message_says_what_was_looked_for_and_what_to_install() -> None:
    said = str(engine_address.nothing({"XDG_RUNTIME_DIR": "/nowhere"}))
    for part in ("DOCKER_HOST", "/nowhere/podman/podman.sock", "apt-get install podman", "docs.docker.com"):
        assert part in said
