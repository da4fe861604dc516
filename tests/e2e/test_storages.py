"""Storages of a site, of a user and of a submission: who may use which, and what tasks see of them."""

from __future__ import annotations

import ctypes
import json
import os
import pwd
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kedge.errors import CannotRun
from kedge.jobs import storage_folders
from kedge.jobs.preparation import prepare
from kedge.jobs.storage_look import all_of
from kedge.resolve.model import Inputs

from .conftest import Kedge

Write = Callable[[str], Path]
_MNT_DETACH = 2


@pytest.fixture
def site(kedge: Kedge) -> Write:
    """Writes the site's file."""

    def write(text: str) -> Path:
        file = kedge.folder / "site.toml"
        file.write_text(text)
        kedge.environment["KEDGE_SITE_FILE"] = str(file)
        return file

    return write


@pytest.fixture
def user(kedge: Kedge) -> Write:
    """Writes the user's file."""

    def write(text: str) -> Path:
        file = kedge.folder / "config.toml"
        file.write_text(text)
        kedge.environment["KEDGE_CONFIG_FILE"] = str(file)
        return file

    return write


def job(kedge: Kedge, *names: str, command: str = "true", **keys: Any) -> Path:
    return kedge.job(command, extras={"storages": [{"name": name} for name in names]}, **keys)


def folder(kedge: Kedge, name: str, **files: str) -> Path:
    """A folder with these files."""
    path = kedge.folder / name
    path.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        (path / file).write_text(content)
    return path


def planned(kedge: Kedge, file: Path, *args: object) -> dict[str, dict[str, Any]]:
    """The storages of a plan by name."""
    return {each["name"]: each for each in json.loads(kedge("plan", "--json", file, *args).stdout)["storages"]}


ACCOUNT = pwd.getpwuid(os.getuid()).pw_name


def test_removing_a_run_and_copying_its_results_never_follow_links_to_storages(kedge: Kedge, site: Write) -> None:
    data = folder(kedge, "srv/data", keep="precious\n")
    site(f"storages.data.path = '{data}'")
    command = 'ln -s "$KEDGE_STORAGE_DATA" "$KEDGE_OUTPUT_DIR/link"; ln -s "$KEDGE_STORAGE_DATA" "$KEDGE_JOB_DIR/link"'
    kedge("run", job(kedge, "data", command=command))
    run = kedge.only_run()
    assert (run / "storages" / "data").readlink() == data
    assert "keep" not in kedge("outputs", run.name).stdout
    kedge("cp", f"{run.name}:", kedge.folder / "copied")
    assert not list((kedge.folder / "copied").rglob("keep"))
    kedge("rerun", "--with-job-dir", run.name)
    for each in kedge.runs():
        kedge("rm", each.name)
    assert kedge.runs() == []
    assert (data / "keep").read_text() == "precious\n"


def test_a_site_says_who_may_use_and_who_may_write(kedge: Kedge, site: Write) -> None:
    folder(kedge, "srv")
    site(
        f"""
        groups.team.members = ["{ACCOUNT}"]
        groups.others.members = ["nobody"]
        storages.all.path = "srv"
        storages.mine = {{ path = "srv", users = ["{ACCOUNT}"] }}
        storages.ours = {{ path = "srv", users = ["nobody", "@team"], writers = ["@others"] }}
        storages.theirs = {{ path = "srv", users = ["@others", "team"] }}
        storages.fixed = {{ path = "srv", readOnly = true }}
        storages.written = {{ path = "srv", writers = ["@team"] }}
        """
    )
    found = planned(kedge, job(kedge, "all", "mine", "ours", "fixed", "written"))
    assert {name: each["readOnly"] for name, each in found.items()} == {
        "all": False, "mine": False, "ours": True, "fixed": True, "written": False,
    }  # fmt: skip
    shown = kedge("plan", job(kedge, "fixed")).stdout
    assert f"fixed at /mnt/fixed, read-only, from {kedge.folder}/srv; $KEDGE_STORAGE_FIXED" in shown
    refused = kedge("run", job(kedge, "theirs"), code=2, LOGNAME="nobody", USER="nobody").stderr
    assert "extras.storages[0]: Storage theirs is not for you: storages.theirs.users names neither" in refused
    assert "You may use 'all', 'mine', 'ours', 'fixed', 'written'" in refused
    assert not kedge.runs()


def test_default_storages_of_the_site_and_of_the_user(kedge: Kedge, site: Write, user: Write) -> None:
    folder(kedge, "srv")
    site(
        "storages.a = {path = 'srv', default = true}\nstorages.b.path = 'srv'\n"
        "storages.c = {path = 'srv', default = true, users = ['nobody']}"
    )
    empty = kedge.job("true", extras={"storages": []})
    assert list(planned(kedge, empty)) == ["a"]
    user("default-storages = ['b', 'own']\nstorages.own.path = 'srv'")
    assert list(planned(kedge, empty)) == ["b", "own"]
    site("default-storages = ['b']\nstorages.a = {path = 'srv', default = true}\nstorages.b.path = 'srv'")
    user("storages.own = {path = 'srv', default = true}")
    assert list(planned(kedge, empty)) == ["b", "own"]
    site(
        "storages.a = {path = 'srv', default = true}\nstorages.b.path = 'srv'\n"
        "storages.c = {path = 'srv', users = ['nobody']}"
    )
    user("default-storages = []")
    assert list(planned(kedge, empty)) == []
    file = user("\ndefault-storages = ['c']")
    assert (
        f"{file}:2: default-storages: there is no 'c' that you may use; you may use 'a', 'b'"
        in kedge("plan", empty, code=2).stderr
    )
    kedge("plan", job(kedge, "a"))  # its defaults do not matter


def test_a_sub_path_is_made_for_the_account_at_submission_only(kedge: Kedge, site: Write) -> None:
    scratch = folder(kedge, "srv/scratch")
    site("storages.scratch = {path = 'srv/scratch', subPath = 'users/{user}/{job}', makeSubPath = true}")
    write = job(kedge, "scratch", command='echo mine > "$KEDGE_STORAGE_SCRATCH/file"', name="made")
    shown = kedge("plan", write, LOGNAME="../../evil").stderr
    inner = scratch / "users" / ACCOUNT / "made"
    assert f"storage scratch: {inner}, which will be made" in shown
    assert list(scratch.iterdir()) == []
    kedge("run", write, LOGNAME="../../evil")
    assert (inner / "file").read_text() == "mine\n"
    site("storages.scratch = {path = 'srv/scratch', subPath = 'nobody'}")
    assert f"storage scratch: there is no folder {scratch}/nobody" in kedge("run", write, code=2).stderr
    (scratch / "nobody").symlink_to(folder(kedge, "elsewhere"))
    assert f"{scratch}/nobody leads elsewhere through a link" in kedge("run", write, code=2).stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_a_sub_path_that_another_user_has_made_beforehand_is_refused(kedge: Kedge, site: Write) -> None:
    trap = folder(kedge, f"srv/{ACCOUNT}")
    os.chown(trap, 1_234_567, -1)
    site("storages.scratch = {path = 'srv', subPath = '{user}', makeSubPath = true}")
    kedge("plan", job(kedge, "scratch"))  # the administrator has made it, as nobody else can
    trap.parent.chmod(0o1777)
    refused = kedge("run", job(kedge, "scratch"), code=2).stderr
    assert f"{trap} belongs to another user (uid 1234567), and everybody can make folders in {trap.parent}" in refused


def test_a_storage_of_a_user_never_replaces_or_widens_one_of_the_site(kedge: Kedge, site: Write, user: Write) -> None:
    for name in ("srv/open", "srv/closed/inner", "srv/homes/me", "mine"):
        folder(kedge, name)
    (kedge.folder / "way").symlink_to(kedge.folder / "srv" / "closed")
    limits = (
        "storages.open = {path = 'srv/open', readOnly = true}\n"
        "storages.closed = {path = 'srv/closed', users = ['nobody']}\n"
        "storages.homes = {path = 'srv/homes', subPath = 'you'}\n"
    )
    file = site(limits)
    own = user("[storages.open]\npath = 'mine'")
    clash = f"{own}:2: storages.open: the site has a storage of this name ({file}:1); choose another name"
    assert clash in kedge("plan", job(kedge, "open"), code=2).stderr
    user("storages.own.path = 'mine'\nstorages.open-too.path = 'srv/open'")
    found = planned(kedge, job(kedge, "own", "open-too"))
    assert (found["own"]["readOnly"], found["open-too"]["readOnly"]) == (False, True)
    for path in ("srv/closed", "srv/closed/inner", "srv", "way/inner", "srv/homes/me", "srv/homes"):
        refused = kedge("run", job(kedge, "own"), "--storage", f"own={kedge.folder}/{path}", code=2).stderr
        assert "of the site, which is not for you" in refused, path
    site(limits + f"limits.storages = ['{kedge.folder}/mine']")
    kedge("plan", job(kedge, "own"))
    refused = kedge("plan", job(kedge, "own"), "--storage", f"own={kedge.folder}/srv/open", code=2).stderr
    assert f"--storage own: the site allows only folders in {kedge.folder}/mine as your own storage" in refused
    site(limits + "limits.storages = []")
    assert "the site allows none as your own storage" in kedge("plan", job(kedge, "own"), code=2).stderr
    key = "nfs = {server = 'h', path = '/x'}"
    user(f"storages.own = {{{key}}}")
    assert "only the site's file may set this" in kedge("plan", job(kedge, "own"), code=2).stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("storages.a.default = true", "storages.a: it has no place: set path to a folder of this machine"),
        ("storages.'a/b'.path = '/'", "'a/b' cannot name a storage"),
        ("storages.'..'.path = '/'", "'..' cannot name a storage"),
        ("storages.a = {path = '/', readOnly = true, writers = ['x']}", "readOnly = true is for everybody"),
        ("storages.a = {path = '/', subPath = '../x'}", "must be a relative path without '..'"),
        ("storages.a = {path = '/', subPath = '/x'}", "must be a relative path without '..'"),
        ("storages.a = {path = '/', subPath = 'x/./y'}", "must be a relative path without '..'"),
        ("storages.a = {path = '/', subPath = '{host}'}", "its placeholders are {user} and {job}"),
        ("storages.a = {path = '/', makeSubPath = true}", "it has no effect without subPath"),
        ("storages.a.nfs.server = 'h'", "'path' is missing"),
        ("storages.a = {nfs = {server = 'h', path = 'x'}}", "must be an absolute path on the server"),
        ("storages.a = {nfs = {server = 'h,x', path = '/x'}}", "is not the name or address of a server"),
        ("storages.a = {cifs = {share = '/h/x'}}", "must have the form //SERVER/SHARE"),
        ("storages.a.cifs = {share = '//h/x', options = 'vers=3.0,password=x'}", "every user can read its options"),
        ("storages.a.pvc = 'A_b'", "is not the name of a claim"),
        (f"storages.{'a' * 101}.path = '/'", "cannot name a storage"),
        ("storages.a = {path = '/', credentials = '/c'}", "it has no effect without cifs"),
        (
            "storages.a = {nfs = {server = 'h', path = '/'}, cifs = {share = '//h/x'}}",
            "a storage is either nfs or cifs",
        ),
        ("storages.a = {path = '/', users = ['a b']}", "is not a user or @group"),
    ],
)
def test_a_file_with_a_wrong_storage_is_refused(kedge: Kedge, site: Write, text: str, message: str) -> None:
    file = site(text)
    for refused in (kedge("config", code=2).stderr, kedge("config", "--check", file, code=2).stderr):
        assert f"{file}:1:" in refused
        assert message in refused


@pytest.mark.parametrize("engine", ["local", "slurm"])
def test_a_claim_is_for_kubernetes(kedge: Kedge, site: Write, engine: str) -> None:
    site("storages.data = {pvc = 'datasets', subPath = '{job}'}")
    planned = kedge("plan", job(kedge, "data"), "--engine", engine).stderr
    assert "storage data: claim datasets/job" in planned
    assert f"the storage data is claim datasets/job, and the {engine} engine mounts nothing" in planned
    assert "or use --engine kubernetes" in planned


def test_a_claim_needs_no_folder_of_this_machine(kedge: Kedge, site: Write) -> None:
    folder = kedge.folder / "mounted"
    site(f"storages.data = {{pvc = 'datasets', path = '{folder}'}}")
    (mount,) = json.loads(kedge("plan", job(kedge, "data"), "--json").stdout)["storages"]
    assert mount["folder"] is None
    assert mount["claim"] == {"name": "datasets", "path": ""}
    folder.mkdir()
    (mount,) = json.loads(kedge("plan", job(kedge, "data"), "--json").stdout)["storages"]
    assert mount["folder"] == str(folder)
    assert mount["claim"] == {"name": "datasets", "path": ""}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "there is no folder {path}"),
        (lambda path: path.write_text(""), "{path} is not a folder"),
        (lambda path: path.symlink_to(path), "{path} cannot be used: Too many levels of symbolic links"),
    ],
)
def test_what_is_no_folder_is_refused(kedge: Kedge, make: Callable[[Path], object], message: str) -> None:
    path = kedge.folder / "it"
    make(path)
    refused = kedge("run", job(kedge, "data"), "--storage", f"data={path}", code=2).stderr
    assert refused == f"error: --storage data: {message.format(path=path)}\n"
    assert not kedge.runs()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_dead_file_system_does_not_hang_a_plan(kedge: Kedge, dead: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_folders, "LOOK_SEC", 0.5)
    message = f"--storage data: {dead}/x does not answer within 0.5 s; the server of its file system may be down"
    with pytest.raises(CannotRun) as caught:
        prepare(str(job(kedge, "data")), Inputs("me", storages={"data": f"{dead}/x"}))
    assert str(caught.value) == message


@pytest.fixture
def dead(tmp_path: Path) -> Iterator[Path]:
    """A mounted file system whose server never answers."""
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        pytest.skip(f"this machine has no FUSE: {error}")
    point = tmp_path / "dead"
    point.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
    if libc.mount(b"dead", str(point).encode(), b"fuse.dead", 0, options.encode()) != 0:
        os.close(device)
        pytest.skip(f"nothing can be mounted here: {os.strerror(ctypes.get_errno())}")
    yield point
    os.close(device)  # ends every request
    libc.umount2(str(point).encode(), _MNT_DETACH)


def test_remote_storages_on_the_local_engine_must_be_mounted(kedge: Kedge, site: Write) -> None:
    mounted = folder(kedge, "mounted")
    file = site(
        "storages.bare.nfs = {server = 'nas', path = '/export'}\n"
        "storages.named = {path = 'mounted', nfs = {server = 'nas', path = '/export'}}\n"
    )
    refused = kedge("run", job(kedge, "bare"), code=4).stderr
    assert "the storage bare is nfs nas:/export, and the local engine mounts nothing: mount it on this machine" in (
        refused
    )
    refused = kedge("run", job(kedge, "named"), code=2).stderr
    assert f"{file}:2: storage named: no nfs file system is mounted at {mounted}" in refused
    assert not kedge.runs()


def test_notes_about_mount_paths_name_who_uses_them(kedge: Kedge) -> None:
    data = folder(kedge, "data")
    done = kedge("plan", job(kedge, "data", command="ls /mnt/data/x"), "--storage", f"data={data}")
    assert "mounts nothing at /mnt/data: worker must use $KEDGE_STORAGE_DATA for the storage data" in done.stderr
    done = kedge("plan", job(kedge, "data", command="ls /mnt/database"), "--storage", f"data={data}")
    assert "tasks find the storages data at $KEDGE_STORAGE_DATA, not at their mount paths" in done.stderr
    assert "must use" not in done.stderr
    same = kedge.job("true", extras={"storages": [{"name": "data", "mountPath": str(data)}]})
    assert "mounts nothing" not in kedge("plan", same, "--storage", f"data={data}").stderr


def test_a_rerun_and_an_export_keep_the_folders_of_storages(kedge: Kedge) -> None:
    data = folder(kedge, "data", file="content\n")
    kedge("run", job(kedge, "data", command='cat "$KEDGE_STORAGE_DATA/file"'), "--storage", "data=data")
    run = kedge.only_run()
    assert "worker:0 | content" in kedge("rerun", run.name).stdout
    other = folder(kedge, "other", file="other\n")
    assert "worker:0 | other" in kedge("rerun", run.name, "--storage", f"data={other}").stdout
    assert f"--storage data={data}" in kedge("show", run.name).stdout
    kedge("show", "--export", kedge.folder / "out", run.name)
    assert f"kedge run job.yaml --storage data={data}" in (kedge.folder / "out" / "job.yaml").read_text()
    shutil.rmtree(data)
    assert "--storage data: there is no folder" in kedge("rerun", run.name, code=2).stderr


def test_a_mistyped_option_is_no_suggestion(kedge: Kedge) -> None:
    refused = kedge("plan", job(kedge, "results"), "--storage", f"reslts={kedge.folder}", code=2).stderr
    assert "Storage results is not found: none is configured. Use a folder of your own: --storage results=" in refused
    assert "--storage reslts: the job has no storage of that name; it has results" in refused


@pytest.mark.parametrize("text", ["data", "data=", "=/srv"])
def test_an_option_without_a_name_or_a_folder_is_refused(kedge: Kedge, text: str) -> None:
    refused = kedge("plan", job(kedge, "data"), "--storage", text, code=2).stderr
    assert refused == f"error: --storage {text}: write it as NAME=FOLDER\n"


def test_config_lists_storages(kedge: Kedge, site: Write) -> None:
    site("storages.nas = {nfs = {server = 'nas', path = '/export'}, users = ['@ml']}\ngroups.ml.members = ['ann']")
    shown = {line.split()[0]: line.split()[1] for line in kedge("config").stdout.splitlines()}
    assert shown["storages.nas.nfs.server"] == "nas"
    assert shown["storages.nas.users"] == "@ml"
    assert shown["groups.ml.members"] == "ann"


def test_a_user_sees_the_storages_that_jobs_may_name(kedge: Kedge, site: Write, user: Write) -> None:
    site(
        "storages.data = {path = '/srv/data', readOnly = true, default = true}\n"
        "storages.scratch = {path = '/srv/scratch', subPath = '{user}'}\n"
        "storages.nas.nfs = {server = 'nas', path = '/x'}\nstorages.theirs = {path = '/srv', users = []}"
    )
    user("storages.own.path = 'own'")
    done = kedge("storages")
    rows = {line.split()[0]: line.split("  ") for line in done.stdout.splitlines()[1:]}
    assert list(rows) == ["data", "scratch", "nas", "own"]
    assert [cell.strip() for cell in rows["data"] if cell.strip()][1:4] == ["read", "yes", "/srv/data"]
    assert "read, write" in rows["scratch"]
    assert "/srv/scratch/{user}" in done.stdout
    assert "nfs nas:/x" in done.stdout
    assert done.stderr == "note: 1 more is for other users\n"
    listed = json.loads(kedge("storages", "--json").stdout)["storages"]
    assert [(each["name"], each["ofSite"], each["default"]) for each in listed] == [
        ("data", True, True), ("scratch", True, False), ("nas", True, False), ("own", False, False),
    ]  # fmt: skip
    site("")
    user("")
    assert "--storage NAME=FOLDER" in kedge("storages").stdout


def test_a_job_cannot_set_the_variable_of_a_storage(kedge: Kedge) -> None:
    job = kedge.job("true", extras={"kedge": {"env": {"KEDGE_STORAGE_DATA": "/etc"}}})
    assert "KEDGE_STORAGE_DATA" in kedge("plan", job, code=2).stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_that_the_user_cannot_enter_is_refused() -> None:
    closed = tempfile.mkdtemp()  # whose parents anybody can enter
    found = _as_nobody(lambda: all_of([{"folder": str(closed), "sub": "", "make": False, "kind": ""}], 5.0))
    os.rmdir(closed)
    assert found == f"you have no permission to enter {closed}"


def _as_nobody(look: Callable[[], list[dict[str, Any]]]) -> str:
    """The problem that an unknown user finds."""
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        os.setresuid(1_234_567, 1_234_567, 1_234_567)
        os.write(writer, str(look()[0].get("problem")).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    with open(reader) as answer:
        return answer.read()


def test_what_hangs_does_not_hide_what_is_found_beside_it(dead: Path, tmp_path: Path) -> None:
    looks = [{"folder": str(path), "sub": "", "make": False, "kind": ""} for path in (dead / "x", tmp_path)]
    assert [bool(found.get("hangs")) for found in all_of(looks, 0.5)] == [True, False]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.parametrize("kind", ["tmpfs", "autofs"])
def test_a_mounted_file_system_must_be_of_its_kind(kedge: Kedge, site: Write, kind: str) -> None:
    """What is an automatic mount, until it is used, is taken for the site's."""
    point = folder(kedge, "mounted")
    reader, writer = os.pipe()
    options = f"fd={writer},minproto=5,maxproto=5" if kind == "autofs" else "size=1m"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", str(point).encode(), kind.encode(), 0, options.encode()) != 0:
        pytest.skip(f"nothing can be mounted here: {os.strerror(ctypes.get_errno())}")
    try:
        file = site("storages.a = {path = 'mounted', nfs = {server = 'nas', path = '/x'}}")
        done = kedge("plan", job(kedge, "a"), code=2 if kind == "tmpfs" else 0)
        refused = f"{file}:1: storage a: no nfs file system is mounted at {point}" in done.stderr
        assert refused == (kind == "tmpfs")
    finally:
        libc.umount2(str(point).encode(), _MNT_DETACH)
        os.close(reader)
        os.close(writer)
