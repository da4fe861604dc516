"""Folders of the site that tasks use by the names of storages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kedge.testing.command import Kedge
from kedge.testing.conformance.case import same

_REQUIRED = {
    "name": "needs", "type": "data", "plugin": "pvc_storage", "plugin_params": {"name": "in-2"},
    "requireStorages": [{"name": "out"}],
}  # fmt: skip


def _site(kedge: Kedge, text: str, **files: str) -> Path:
    """A folder `srv` with one folder and one file for each of `files`, and a site's file."""
    folder = kedge.folder / "srv"
    for name, content in files.items():
        (folder / name).mkdir(parents=True)
        (folder / name).chmod(0o777)
        (folder / name / "file").write_text(content)
    kedge.site_file(text)
    return folder


def from_every_place(kedge: Kedge) -> None:
    folder = _site(kedge, "storages.in-1.path='srv/a'\nstorages.in-2.path='srv/b'\nstorages.out.path='srv/c'",
                   a="one\n", b="two\n", c="")  # fmt: skip
    command = 'cat "$KEDGE_STORAGE_IN_1/file" "$KEDGE_STORAGE_IN_2/file" | tee "$KEDGE_STORAGE_OUT/result"'
    job = kedge.job(
        command,
        roles={"worker": {"prerequisites": ["needs"]}},
        prerequisites=[_REQUIRED],
        extras={"storages": [{"name": "in-1", "mountPath": "/data/in"}]},
    )
    kedge("run", job)
    same("log", kedge.task_log(), "one\ntwo\n")
    same("the storage", (folder / "c" / "result").read_text(), "one\ntwo\n")
    kedge("rm", kedge.only_run().name)
    same("after rm", (folder / "c" / "result").read_text(), "one\ntwo\n")
    assert kedge.leftovers() == []


def defaults(kedge: Kedge) -> None:
    _site(kedge, "storages.a={path='srv/a', default=true}\nstorages.b.path='srv/b'", a="one\n", b="two\n")
    job = kedge.job('cat "$KEDGE_STORAGE_A/file"; echo "${KEDGE_STORAGE_B-none}"', extras={"storages": []})
    kedge("run", job)
    same("log", kedge.task_log(), "one\nnone\n")


def own_part(kedge: Kedge) -> None:
    folder = _site(kedge, "storages.s={path='srv/a', subPath='{user}/{job}', makeSubPath=true}", a="all\n")
    kedge(
        "run", kedge.job('ls "$KEDGE_STORAGE_S/"; touch "$KEDGE_STORAGE_S/mine"', extras={"storages": [{"name": "s"}]})
    )
    same("log", kedge.task_log(), "")
    same("files", [path.name for path in folder.glob("a/*/job/*")], ["mine"])


def refused(kedge: Kedge) -> None:
    _site(kedge, "storages.mine.path='srv/a'\nstorages.theirs={path='srv/b', users=[]}", a="", b="")
    job = kedge.job("true", extras={"storages": [{"name": "theirs"}, {"name": "min"}]})
    errors = kedge("run", job, code=2).stderr
    assert "extras.storages[0]: Storage theirs is not for you" in errors, errors
    assert "extras.storages[1]: Storage min is not found; did you mean 'mine'? You may use 'mine'" in errors, errors
    assert kedge.runs() == []


BEHAVIOURS: dict[str, Callable[[Kedge], None]] = {
    "tasks find the storages of the job, of its plugins and of its prerequisites": from_every_place,
    "an empty list of storages means the default ones": defaults,
    "a storage can be a folder for each user and job, which is made": own_part,
    "unknown and forbidden storages are refused before a job starts": refused,
}
