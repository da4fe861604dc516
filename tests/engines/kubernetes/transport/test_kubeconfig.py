"""Kubeconfig files: which counts, and what their users prove."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kedge.engines.kubernetes.transport import kubeconfig, service_account
from kedge.engines.kubernetes.transport.endpoint import NotConfigured


def written(path: Path, *, server: str = "https://one:6443", user: dict[str, Any] | None = None, **more: Any) -> Path:
    document = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": server, **more.pop("cluster", {})}}],
        "users": [{"name": "u", "user": user or {"token": "t0ken"}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", **more.pop("context", {})}}],
        **more,
    }  # fmt: skip
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_context_names_server_namespace_and_user(tmp_path: Path) -> None:
    path = written(tmp_path / "config", context={"namespace": "team"}, cluster={"tls-server-name": "api"})
    found = kubeconfig.endpoint(str(path))
    assert found.context == "c"
    assert found.endpoint.server == "https://one:6443"
    assert found.endpoint.namespace == "team"
    assert found.endpoint.tls_name == "api"
    assert found.endpoint.proof.headers() == {"Authorization": "Bearer t0ken"}
    assert kubeconfig.endpoint(str(path), namespace="other").endpoint.namespace == "other"


def test_of_several_files_the_first_that_names_a_thing_counts(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.write_text(yaml.safe_dump({"current-context": "d", "users": [{"name": "u", "user": {"token": "first"}}]}))
    contexts = [{"name": "d", "context": {"cluster": "k", "user": "u"}}]
    second = written(tmp_path / "second", contexts=contexts)
    environment = {"KUBECONFIG": f"{first}:{tmp_path / 'gone'}:{second}"}
    found = kubeconfig.endpoint(environment=environment)
    assert found.context == "d"
    assert found.endpoint.proof.headers() == {"Authorization": "Bearer first"}
    again = ":".join(kubeconfig.paths(None, environment))
    assert kubeconfig.endpoint(again).context == "d"


def test_relative_paths_count_from_their_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "token").write_text("from-file\n")
    (tmp_path / "sub" / "ca").write_bytes(b"CA")
    path = written(tmp_path / "sub" / "config", user={"tokenFile": "token"}, cluster={"certificate-authority": "ca"})
    found = kubeconfig.endpoint(str(path)).endpoint
    assert found.ca == b"CA"
    assert found.proof.headers() == {"Authorization": "Bearer from-file"}
    (tmp_path / "sub" / "token").write_text("newer")
    assert found.proof.headers() == {"Authorization": "Bearer from-file"}
    assert found.proof.headers(renew=True) == {"Authorization": "Bearer newer"}


def test_certificates_may_be_in_the_file(tmp_path: Path) -> None:
    data = {f"client-{name}-data": base64.b64encode(name.encode()).decode() for name in ("certificate", "key")}
    found = kubeconfig.endpoint(str(written(tmp_path / "config", user=data))).endpoint
    assert found.proof.certificate() == (b"certificate", b"key")
    del data["client-key-data"]
    with pytest.raises(NotConfigured, match="only one of client-certificate and client-key"):
        kubeconfig.endpoint(str(written(tmp_path / "config", user=data)))


_PLUGIN = """
import json, os, pathlib, sys
count = pathlib.Path(sys.argv[1])
count.write_text(str(int(count.read_text()) + 1))
about = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
status = {"token": f"t{count.read_text()}-{os.environ['REGION']}", "expirationTimestamp": sys.argv[2]}
print(json.dumps({"kind": "ExecCredential", "apiVersion": about["apiVersion"], "status": status}))
"""


@pytest.mark.parametrize(("ends", "then"), [("2999-01-01T00:00:00Z", "t1-north"), ("2000-01-01T00:00:00Z", "t2-north")])
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_plugin_is_asked_until_its_token_ends(tmp_path: Path, version: str, ends: str, then: str) -> None:
    (tmp_path / "plugin.py").write_text(_PLUGIN)
    (tmp_path / "count").write_text("0")
    program = {
        "apiVersion": f"client.authentication.k8s.io/{version}", "command": sys.executable,
        "args": [str(tmp_path / "plugin.py"), str(tmp_path / "count"), ends],
        "env": [{"name": "REGION", "value": "north"}],
    }  # fmt: skip
    proof = kubeconfig.endpoint(str(written(tmp_path / "config", user={"exec": program}))).endpoint.proof
    assert proof.headers() == {"Authorization": "Bearer t1-north"}
    assert proof.headers() == {"Authorization": f"Bearer {then}"}


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ({"command": "false"}, "false, which logs in to the cluster, ended with code 1"),
        ({"command": "true"}, "true, which logs in to the cluster, printed no credentials"),
        ({"command": "kedge-no-such", "installHint": "Install it."}, "No such file or directory; Install it"),
        ({"command": "true", "apiVersion": "v9"}, "apiVersion 'v9' is not known"),
    ],
)
def test_a_plugin_that_fails_is_named(tmp_path: Path, program: dict[str, str], told: str) -> None:
    given = {"apiVersion": "client.authentication.k8s.io/v1", **program}
    proof = kubeconfig.endpoint(str(written(tmp_path / "config", user={"exec": given}))).endpoint.proof
    with pytest.raises(NotConfigured, match=told):
        proof.headers()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"current-context": "gone"}, r"there is no context 'gone' \(there is c\)"),
        ({"clusters": []}, "there is no cluster 'k'"),
        ({"users": []}, "there is no user 'u'"),
        ({"cluster": {"server": ""}}, "server is missing"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "auth-provider has been removed"),
        ({"user": {"token": 7}}, "token must be a text"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    with pytest.raises(NotConfigured, match=told) as error:
        kubeconfig.endpoint(str(written(tmp_path / "config", **change)))
    assert str(tmp_path / "config") in str(error.value)


def test_a_damaged_file_is_told_without_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("users: [{name: u, user: {token: s3cret}\n")
    with pytest.raises(NotConfigured, match="is not a valid kubeconfig file") as error:
        kubeconfig.endpoint(str(tmp_path / "config"))
    assert "s3cret" not in str(error.value)


def test_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match=r"there is no kubeconfig file .*; set KUBECONFIG, or name one"):
        kubeconfig.endpoint(environment={"KUBECONFIG": str(tmp_path / "gone")})


def test_a_pod_is_its_service_account(tmp_path: Path) -> None:
    for name, text in {"token": "one", "namespace": "team", "ca.crt": "CA"}.items():
        (tmp_path / name).write_text(text)
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    found = service_account.endpoint(environment, str(tmp_path))
    assert (found.server, found.namespace, found.ca) == ("https://[fd00::1]:6443", "team", b"CA")
    (tmp_path / "token").write_text("two")  # as the kubelet does, long before the old one ends
    assert found.proof.headers(renew=True) == {"Authorization": "Bearer two"}
    with pytest.raises(NotConfigured, match="KUBERNETES_SERVICE_HOST is not set"):
        service_account.endpoint({}, str(tmp_path))


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("\n")
    with pytest.raises(NotConfigured, match="config is empty"):
        kubeconfig.endpoint(str(tmp_path / "config"))
