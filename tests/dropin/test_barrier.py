"""The barrier and the retriever, against an API server of the test over HTTP and TLS."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kedge.dropin.cluster import access, barrier, retriever
from kedge.dropin.cluster.access import ApiServer, CannotReachCluster
from kedge.dropin.cluster.credentials import Credentials
from kedge.dropin.cluster.framework_request import FrameworkName, ReadFailed
from kedge.dropin.cluster.framework_settings import BarrierSettings
from kedge.dropin.cluster.framework_status import OwnTask
from kedge.dropin.init_log import InitLog
from kedge.dropin.net.http_connections import Tls
from kedge.testing.raw_server import serving

from .api_servers import NAME, PATH, Api, framework, serving_api, status, task
from .tls_servers import Certificate

SRC = Path(__file__).parents[2] / "src"
PROGRAM = "import sys; sys.path.insert(0, {!r}); from kedge.dropin import programs; sys.exit(programs.main({!r}))"
FORBIDDEN = (
    f'frameworks.frameworkcontroller.microsoft.com "{NAME}" is forbidden: User '
    '"system:serviceaccount:default:default" cannot get resource "frameworks" in API group '
    '"frameworkcontroller.microsoft.com" in the namespace "default"'
)
GRANT = (
    "kubectl create role framework-reader -n default --verb=get,list,watch "
    "--resource=frameworks.frameworkcontroller.microsoft.com && "
    "kubectl create rolebinding framework-reader -n default --role=framework-reader "
)


@pytest.fixture
def api() -> Iterator[Api]:
    with serving_api() as server:
        yield server


class Waiting:
    """The barrier in this process, with times that are too short for its variables."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "log"

    @property
    def log(self) -> str:
        return self._path.read_text()

    def wait(
        self, api: Api, timeout: float = 5.0, own: OwnTask | None = None, **server: Any
    ) -> tuple[int, dict[str, Any]]:
        """The exit code that the end would have, and the framework."""
        at = ApiServer(api.url, Tls(), Credentials(), {})._replace(**server)
        settings = BarrierSettings(FrameworkName("default", NAME), 0.01, timeout)
        with self._path.open("w") as file:
            log = InitLog((file.fileno(),))
            try:
                return 0, barrier.wait(settings, at, own, log)
            except barrier.Failed as failed:
                log.error(f"ExitCode: {failed.code}: {failed}")
                return failed.code, {}


@pytest.fixture
def waiting(tmp_path: Path) -> Waiting:
    return Waiting(tmp_path)


def start(name: str, folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the init phase as a process of its own, in a folder."""
    given = {"HOME": str(folder), "PATH": os.environ["PATH"], "FC_FRAMEWORK_NAME": NAME, "PAI_LOG_DIR": str(folder)}
    command = [sys.executable, "-I", "-c", PROGRAM.format(str(SRC), name), *arguments]
    return subprocess.run(command, env=given | environment, cwd=folder, capture_output=True, text=True, check=False)


# The program as a whole.


def test_a_barrier_that_passes(api: Api, tmp_path: Path) -> None:
    api.answers = [framework(worker=[task(0, "10.0.0.1", "mine"), task(1, "10.0.0.2")], taskrole1=[task(0, "fd00::7")])]
    done = start(
        "frameworkBarrier", tmp_path, KUBE_APISERVER_ADDRESS=api.url, PAI_TASK_ROLE_LIST="worker,taskrole_1",
        FC_TASKROLE_NAME="worker", FC_TASK_INDEX="0", FC_POD_UID="mine",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert api.requests == [(PATH, None)]
    for message in (
        "Initializing frameworkbarrier", f"With Config: \nkubeApiServerAddress: \"{api.url}\"",
        f"frameworkName: {NAME}\nbarrierCheckIntervalSec: 10\nbarrierCheckTimeoutSec: 600\n",
        "Running frameworkbarrier", "BarrierPassed: 3/3 Tasks are ready with not nil PodIP.",
        "BarrierSucceeded: All Tasks are ready with not nil PodIP.",
        "Succeeded to dump the Framework object to local file: ./framework.json",
        "Succeeded to generate the injector script to local file: ./injector.sh",
        "ExitCode: 0: Exit with success.",
    ):  # fmt: skip
        assert f" - {message}" in done.stderr or message in done.stderr.partition("With Config")[2], message
    written = json.loads((tmp_path / "framework.json").read_text())
    annotations = written["metadata"].pop("annotations")
    assert json.loads(annotations.pop("taskRoleNames")) == {"worker": "worker", "taskrole1": "taskrole_1"}
    assert annotations == {"jobName": "test", "config": "name: test\n"}
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("framework.json", "injector.sh")}
    assert modes == {"framework.json": 0o644, "injector.sh": 0o755}


def test_the_injector_exports_addresses_in_both_spellings(api: Api, tmp_path: Path) -> None:
    api.answers = [framework(taskrole1=[task(0, "10.0.0.1"), task(1, "fd00::7"), task(2, "$(reboot)")])]
    done = start(
        "frameworkBarrier", tmp_path, "sub/framework.json", KUBE_APISERVER_ADDRESS=api.url,
        PAI_TASK_ROLE_LIST="taskrole_1",
    )  # fmt: skip
    assert done.returncode == 1
    assert "sub" in done.stderr
    (tmp_path / "sub").mkdir()
    done = start(
        "frameworkBarrier", tmp_path, "sub/framework.json", KUBE_APISERVER_ADDRESS=api.url,
        PAI_TASK_ROLE_LIST="taskrole_1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    shell = "FB_TASKROLE1_PORT=1 FB_TASKROLE_1_PORT=2; . sub/injector.sh; env | grep ^FB_ | sort"
    shown = subprocess.run(["sh", "-c", shell], cwd=tmp_path, env={}, capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == [
        "FB_TASKROLE1_ADDRESSES=10.0.0.1:1,[fd00::7]:1",
        "FB_TASKROLE1_IPS=10.0.0.1,fd00::7",
        "FB_TASKROLE_1_ADDRESSES=10.0.0.1:2,[fd00::7]:2",
        "FB_TASKROLE_1_IPS=10.0.0.1,fd00::7",
    ]


def test_a_framework_that_does_not_exist(api: Api, tmp_path: Path) -> None:
    api.answers = [status(404, f'frameworks.frameworkcontroller.microsoft.com "{NAME}" not found')]
    for program in ("frameworkBarrier", "frameworkRetriever"):
        done = start(program, tmp_path, KUBE_APISERVER_ADDRESS=api.url)
        assert done.returncode == 210
        assert f"there is no framework {NAME} in the namespace default of {api.url}: frameworks." in done.stderr
    assert len(api.requests) == 2


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("FC_FRAMEWORK_NAME", "", "FC_FRAMEWORK_NAME is not set; FrameworkController sets it"),
        ("FC_FRAMEWORK_NAME", "../x", "FC_FRAMEWORK_NAME is '../x', which is not a valid name"),
        ("FC_FRAMEWORK_NAMESPACE", "A", "FC_FRAMEWORK_NAMESPACE is 'A', which is not a valid name"),
        ("BARRIER_CHECK_INTERVAL_SEC", "4", "is '4'; it must be a number of seconds of at least 5"),
        ("BARRIER_CHECK_TIMEOUT_SEC", "59", "is '59'; it must be a number of seconds from 60 to 1200"),
        ("BARRIER_CHECK_TIMEOUT_SEC", "1201", "is '1201'; it must be"),
        ("BARRIER_CHECK_TIMEOUT_SEC", "10m", "is '10m'; it must be"),
    ],
)
def test_bad_settings_are_permanent(variable: str, value: str, message: str, tmp_path: Path) -> None:
    done = start("frameworkBarrier", tmp_path, KUBE_APISERVER_ADDRESS="http://127.0.0.1:1", **{variable: value})
    assert done.returncode == 210
    assert f"ExitCode: 210: {variable}" in done.stderr
    assert message in done.stderr


def test_passwords_in_addresses_are_not_logged(api: Api, tmp_path: Path) -> None:
    api.answers = [framework(worker=[task(0)])]
    done = start("frameworkBarrier", tmp_path, KUBE_APISERVER_ADDRESS=api.url.replace("://", "://me:secret@"))
    assert done.returncode == 0
    assert f'kubeApiServerAddress: "{api.url}"' in done.stderr
    assert "secret" not in done.stderr


def test_without_an_api_server(tmp_path: Path) -> None:
    done = start("frameworkBarrier", tmp_path)
    assert done.returncode == 1
    assert "ExitCode: 1: no API server is known: set KUBE_APISERVER_ADDRESS or KUBECONFIG" in done.stderr


# When all tasks are ready.


@pytest.mark.parametrize("compressed", [False, True])
def test_it_waits_until_all_tasks_have_an_address(compressed: bool, api: Api, waiting: Waiting) -> None:
    api.answers = [
        framework(compressed=compressed, numbers={"worker": 2}, worker=[]),
        framework(compressed=compressed, worker=[task(0), task(1, None)]),
        framework(compressed=compressed, worker=[task(0), task(1, "")]),
        framework(compressed=compressed, worker=[task(0), task(1, deletionPending=True)]),
        framework(compressed=compressed, worker=[task(0), task(1)]),
    ]
    code, found = waiting.wait(api)
    assert code == 0
    assert found["status"]["attemptStatus"] == {
        "taskRoleStatuses": [{"name": "worker", "taskStatuses": [task(0), task(1)]}]
    }
    said = [line.rpartition(" - ")[2] for line in waiting.log.splitlines()]
    assert said == [
        "BarrierNotPassed: 0/2 Tasks are ready with not nil PodIP.",
        *["BarrierNotPassed: 1/2 Tasks are ready with not nil PodIP."] * 3,
        "BarrierPassed: 2/2 Tasks are ready with not nil PodIP.",
        "BarrierSucceeded: All Tasks are ready with not nil PodIP.",
    ]


def test_surplus_tasks_do_not_count(api: Api, waiting: Waiting) -> None:
    """A role that is made smaller still has its old tasks for a while."""
    api.answers = [
        framework(numbers={"worker": 2}, worker=[task(0), task(1, None), task(2)]),
        framework(numbers={"worker": 2}, worker=[task(0), task(1), task(2)]),
    ]
    assert waiting.wait(api)[0] == 0
    assert len(api.requests) == 2


def test_the_record_of_an_earlier_pod_does_not_count(api: Api, waiting: Waiting) -> None:
    old, new = task(0, uid="old"), task(0, uid="new")
    none = task(0, uid="")
    api.answers = [framework(worker=[task, peer]) for task in (old, none, new) for peer in [task_of_peer()]]
    assert waiting.wait(api, own=OwnTask("worker", 0, "new"))[0] == 0
    assert len(api.requests) == 3
    assert "BarrierNotPassed: 1/2 Tasks" in waiting.log
    assert "The Framework records old for this task, which is not this pod, new." in waiting.log
    assert "The Framework records no pod for this task, which is not this pod, new." in waiting.log


def task_of_peer() -> dict[str, Any]:
    return task(1, "10.0.0.2", "peer")


def test_not_all_tasks_in_time(api: Api, waiting: Waiting) -> None:
    api.answers = [status(500, "etcd is down"), framework(worker=[task(0), task(1, None)])]
    assert waiting.wait(api, timeout=0.2)[0] == 201
    assert "ExitCode: 201: not all Tasks were ready within 0.2 seconds" in waiting.log


# Failures of the API server.


def test_unauthorised_is_retried_and_explained(api: Api, waiting: Waiting) -> None:
    api.answers = [status(401, "Unauthorized")]
    assert waiting.wait(api, timeout=0.2)[0] == 1
    assert waiting.log.count("Failed to get Framework object from ApiServer: Unauthorized\n") == len(api.requests) > 2
    assert waiting.log.count("the request had no credentials, or only a certificate: set serviceAccountName") == 1
    last = waiting.log.splitlines()[-1]
    assert "ExitCode: 1: the Framework object could not be read within 0.2 seconds: Unauthorized. " in last
    assert (
        "permission to get, list and watch on frameworks.frameworkcontroller.microsoft.com in the namespace default"
        in last
    )
    assert GRANT + "--serviceaccount=NAMESPACE:NAME" in last


def test_unauthorised_names_whom_the_token_is_for(api: Api, waiting: Waiting, tmp_path: Path) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"sub": "system:serviceaccount:default:runtime-account"}).encode())
    (tmp_path / "token").write_text(f"x.{claims.decode().rstrip('=')}.secret\n")
    api.answers = [status(401, "Unauthorized")]
    credentials = Credentials(token_file=str(tmp_path / "token"))
    assert waiting.wait(api, timeout=0.05, credentials=credentials)[0] == 1
    assert "does not accept the token of system:serviceaccount:default:runtime-account" in waiting.log
    assert GRANT + "--serviceaccount=default:runtime-account" in waiting.log
    assert "secret" not in waiting.log


def test_forbidden_names_the_user_and_the_role(api: Api, waiting: Waiting) -> None:
    api.answers = [status(403, FORBIDDEN)]
    assert waiting.wait(api, timeout=0.05)[0] == 1
    assert f"Failed to get Framework object from ApiServer: Forbidden: {FORBIDDEN}" in waiting.log
    assert (
        "system:serviceaccount:default:default needs the permission to get, list and watch on frameworks."
        f"frameworkcontroller.microsoft.com in the namespace default: {GRANT}--serviceaccount=default:default"
    ) in waiting.log


def test_a_permission_that_is_given_meanwhile(api: Api, waiting: Waiting) -> None:
    api.answers = [status(403, FORBIDDEN), framework(worker=[task(0)])]
    assert waiting.wait(api)[0] == 0


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (status(429, "too many requests", Retry_After="0"), "answers 429 too many requests"),
        (status(500, "etcd is down"), "answers 500 etcd is down"),
        ((503, {}, b"<html>"), "answers 503 Service Unavailable"),
        ((302, {"Location": "/login"}, b""), "answers 302 Found; redirects are not followed, so check the address"),
        ((200, {}, b"<html>"), "does not answer with JSON"),
        ((200, {}, b"[" * 100000), "does not answer with JSON"),
        ((200, {}, b"{}"), "does not answer with a Framework"),
        ((200, {"Content-Length": "500"}, b"{}"), "the body ends after 2 of 500 bytes"),
        ((200, {"Content-Length": "99999999999"}, b""), "the body is larger than 67108864 bytes"),
        ({**framework(), "status": {"attemptStatus": {"taskRoleStatusesCompressed": "H4sI"}}},
         "the framework's taskRoleStatusesCompressed is cut off"),
        ({**framework(), "status": {"attemptStatus": {"taskRoleStatusesCompressed": 5}}}, "Compressed is damaged"),
    ],
)  # fmt: skip
def test_other_failures_are_retried(answer: Any, message: str, api: Api, waiting: Waiting) -> None:
    api.answers = [answer, answer, framework(worker=[task(0)])]
    assert waiting.wait(api)[0] == 0
    assert waiting.log.count(message) == 2


def test_the_last_failure_is_the_reason(api: Api, waiting: Waiting) -> None:
    api.answers = [framework(worker=[task(0, None)]), status(500, "etcd is down")]
    assert waiting.wait(api, timeout=0.1)[0] == 1
    assert f"within 0.1 seconds: {api.url}{PATH} answers 500 etcd is down" in waiting.log


def test_retry_after_is_waited_for(api: Api, waiting: Waiting) -> None:
    api.answers = [status(429, "busy", Retry_After="100000"), framework(worker=[task(0)])]
    assert waiting.wait(api, timeout=0.3)[0] == 0
    assert len(api.requests) == 2  # not before, and once more at the end


@pytest.mark.parametrize(
    "strange",
    [
        {"spec": None, "status": None},
        {"spec": {"taskRoles": [None, {"name": 5, "taskNumber": "x"}]}},
        {"spec": {"taskRoles": [{"name": "w", "taskNumber": 0}]}, "status": {"attemptStatus": {"taskRoleStatuses": 5}}},
        {"metadata": {"annotations": []}, "status": {"attemptStatus": {"taskRoleStatuses": [{"taskStatuses": [1]}]}}},
    ],
)
def test_strange_frameworks_do_not_break_it(strange: dict[str, Any], api: Api, tmp_path: Path) -> None:
    api.answers = [{**framework(), **strange}]
    done = start("frameworkBarrier", tmp_path, KUBE_APISERVER_ADDRESS=api.url, FC_TASKROLE_NAME="w", FC_TASK_INDEX="x")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


# How the API server is found, and how it lets clients in.


def kubeconfig(folder: Path, url: str, cluster: dict[str, Any], user: dict[str, Any], **others: Any) -> Path:
    file = folder / "config"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [
            {"name": "other", "context": {"cluster": "x", "user": "y"}},
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": url, **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    file.write_text(json.dumps(content | others))  # JSON is YAML
    return file


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_kubeconfig_with_files(own_certificate: Certificate, waiting: Waiting, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(own_certificate.pem)
    (tmp_path / "token").write_text("first\n")
    with serving_api(own_certificate) as api:
        file = kubeconfig(tmp_path, api.url, {"certificate-authority": "ca.pem"}, {"tokenFile": "token"})
        found = access.find({"KUBECONFIG": str(file)}, str(tmp_path / "none"))

        def replaced() -> Any:
            (tmp_path / "token").write_text("second\n")  # clusters do this every hour
            return status(401, "Unauthorized")

        api.answers = [replaced, framework(worker=[task(0)])]
        assert waiting.wait(api, **found._asdict())[0] == 0
        assert [header for _, header in api.requests] == ["Bearer first", "Bearer second"]


def test_kubeconfig_with_data(own_certificate: Certificate, tmp_path: Path) -> None:
    """The usual place of the file, as a process of its own."""
    user = {
        "client-certificate-data": encoded(own_certificate.pem),
        "client-key-data": encoded(own_certificate.key.read_bytes()),
    }
    (tmp_path / ".kube").mkdir()
    with serving_api(own_certificate, clients=own_certificate) as api:
        kubeconfig(tmp_path / ".kube", api.url, {"certificate-authority-data": encoded(own_certificate.pem)}, user)
        api.answers = [framework(worker=[task(0)])]
        done = start("frameworkBarrier", tmp_path)
    assert done.returncode == 0, done.stderr


def test_kubeconfig_with_passwords_and_without_checks(
    own_certificate: Certificate, waiting: Waiting, tmp_path: Path
) -> None:
    with serving_api(own_certificate) as api:
        user = {"username": "me", "password": "pw"}
        file = kubeconfig(tmp_path, "https://127.0.0.1:1", {"insecure-skip-tls-verify": True}, user)
        environment = {"KUBECONFIG": f"/no/file:{file}", "KUBE_APISERVER_ADDRESS": api.url}
        found = access.find(environment, str(tmp_path / "none"))
        api.answers = [framework(worker=[task(0)])]
        assert waiting.wait(api, **found._asdict())[0] == 0
        assert api.requests == [(PATH, f"Basic {encoded(b'me:pw')}")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"current-context": "gone"}, "there is no context 'gone'"),
        ({"current-context": ""}, "current-context is missing; set it with kubectl config use-context NAME"),
        ({"clusters": []}, "there is no cluster 'c'"),
        ({"users": [{"name": "u", "user": {"exec": {"command": "aws"}}}]}, "user 'u': exec is not supported"),
        ({"users": [{"name": "u", "user": {"token": 5}}]}, "user 'u': token must be a text"),
        ({"users": [{"name": "u", "user": {"client-key": "/no"}}]}, "/no cannot be read: No such file or directory"),
        ({"users": [{"name": "u", "user": {"client-key-data": "aGk="}}]}, "it has only one of client-certificate and"),
        ({"clusters": [{"name": "c", "cluster": {}}]}, "cluster 'c': server is missing"),
    ],
)
def test_errors_in_a_kubeconfig(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, "http://127.0.0.1:1", {}, {}, **change)
    with pytest.raises(CannotReachCluster) as caught:
        access.find({"KUBECONFIG": str(file)})
    assert str(caught.value).startswith(str(file)) or message.startswith("/no")
    assert message in str(caught.value)


@pytest.mark.parametrize(("content", "message"), [("a: [", "is not a valid kubeconfig file"), (None, "cannot be read")])
def test_a_kubeconfig_that_cannot_be_read(content: str | None, message: str, tmp_path: Path) -> None:
    if content:
        (tmp_path / "config").write_text(content)
    done = start("frameworkBarrier", tmp_path, KUBECONFIG=str(tmp_path / "config"))
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_service_account_of_a_pod(own_certificate: Certificate, waiting: Waiting, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(own_certificate.pem)
    (tmp_path / "token").write_text("mine\n")
    with serving_api(own_certificate) as api:
        port = api.url.rpartition(":")[2]
        pod = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port, "HOME": "/nowhere"}
        found = access.find(pod | {"KUBE_APISERVER_ADDRESS": "http://127.0.0.1:1"}, str(tmp_path))
        api.answers = [framework(worker=[task(0)])]
        assert waiting.wait(api, **found._asdict())[0] == 0
        assert api.requests == [(PATH, "Bearer mine")]
        (tmp_path / "token").unlink()
        with pytest.raises(CannotReachCluster, match="token does not exist: set serviceAccountName of the pod"):
            access.find(pod, str(tmp_path))


def test_a_pod_does_not_trust_others(own_certificate: Certificate, waiting: Waiting, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("mine")
    with serving_api(own_certificate) as api:
        tls = Tls()
        assert waiting.wait(api, timeout=0.05, tls=tls, credentials=Credentials(token="mine"))[0] == 1
        assert "its certificate is not trusted" in waiting.log
        assert not api.requests


def test_a_token_that_cannot_be_read(api: Api, waiting: Waiting) -> None:
    api.answers = [framework()]
    assert waiting.wait(api, timeout=0.05, credentials=Credentials(token_file="/no/token"))[0] == 1
    assert "Failed to get Framework object from ApiServer: /no/token: No such file or directory" in waiting.log


# The retriever.


def retrieve(api: Api, folder: Path, tries: int = 3) -> dict[str, Any]:
    server = ApiServer(api.url, Tls(), Credentials(), {})
    with (folder / "log").open("w") as file:
        log = InitLog((file.fileno(),))
        return retriever.retrieve(server, FrameworkName("default", NAME), log, retriever.Patience(tries, 0.001, 0.01))


def test_the_retriever_does_not_wait_for_peers(api: Api, tmp_path: Path) -> None:
    api.answers = [framework(compressed=True, worker=[task(0), task(1, None)])]
    done = start("frameworkRetriever", tmp_path, KUBE_APISERVER_ADDRESS=api.url)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "framework.json").read_text()) == framework(worker=[task(0), task(1, None)])


def test_the_retriever_repeats_what_may_succeed(api: Api, tmp_path: Path) -> None:
    api.answers = [status(503, "starting"), status(429, "busy", Retry_After="1"), framework(worker=[task(0)])]
    assert retrieve(api, tmp_path)["kind"] == "Framework"
    assert len(api.requests) == 3


@pytest.mark.parametrize(
    ("answer", "code"), [(status(500, "down"), 200), (status(429, "busy"), 200), (status(403, ""), 1)]
)
def test_the_retriever_gives_up(answer: Any, code: int, api: Api, tmp_path: Path) -> None:
    api.answers = [answer]
    with pytest.raises(ReadFailed) as caught:
        retrieve(api, tmp_path)
    assert retriever.exit_code(caught.value) == code
    assert ("kubectl create role" in retriever.reason(caught.value)) == (code == 1)
    assert len(api.requests) == 3


def test_a_server_that_is_not_there_is_transient(tmp_path: Path) -> None:
    with serving() as gone:
        pass
    api = Api()
    api.url = gone.url
    with pytest.raises(ReadFailed, match="Connection refused") as caught:
        retrieve(api, tmp_path)
    assert retriever.exit_code(caught.value) == retriever.TRANSIENT
