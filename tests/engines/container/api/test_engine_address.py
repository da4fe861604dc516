"""Where kedge looks for the container engine, and the error if there is none."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path

import pytest

from kedge.engines.container.api import connection, engine_address
from kedge.errors import CannotRun


def listening(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen()
    return made


@pytest.mark.parametrize("variable", ["DOCKER_HOST", "CONTAINER_HOST"])
def test_variables_take_precedence(tmp_path: Path, variable: str) -> None:
    with listening(tmp_path / "s"):
        assert connection.address({variable: f"unix://{tmp_path}/s"}) == f"unix://{tmp_path}/s"


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:2375", "ssh://me@far"])
def test_an_engine_on_another_machine_is_an_error(address: str) -> None:
    with pytest.raises(CannotRun, match="must run on this machine"):
        connection.address({"DOCKER_HOST": address})


def test_the_error_for_a_bare_path_names_the_right_form() -> None:
    with pytest.raises(CannotRun, match=r"unix:///run/docker\.sock"):
        connection.address({"DOCKER_HOST": "/run/docker.sock"})


def test_a_missing_named_socket_is_an_error_without_a_fallback() -> None:
    with pytest.raises(CannotRun, match="that socket does not exist"):
        connection.address({"DOCKER_HOST": "unix:///nowhere/s"})


def test_the_current_context_of_docker_is_used(tmp_path: Path) -> None:
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
def test_damaged_settings_of_docker_are_ignored(tmp_path: Path, text: str) -> None:
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


def test_the_error_names_where_kedge_looked_and_what_to_install() -> None:
    message = str(engine_address.nothing({"XDG_RUNTIME_DIR": "/nowhere"}))
    for part in ("DOCKER_HOST", "/nowhere/podman/podman.sock", "apt-get install podman", "docs.docker.com"):
        assert part in message
