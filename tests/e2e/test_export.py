"""The job of a run is written into a folder, and runs from there when everything it was made of has gone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.resolve.conftest import serving

from kedge.own_files import clear

from .conftest import Kedge
from .test_rerun import RULE, SECRET, again, says, write


def exported(kedge: Kedge, *gone: str) -> Path:
    """Export the only run, remove these and the run, and move the export elsewhere."""
    kedge("show", "job", "--export", "new")
    kedge("rm", "job")
    for name in gone:
        clear(kedge.folder / name)
    moved: Path = (kedge.folder / "new").rename(kedge.folder / "moved")
    return moved


def run_there(kedge: Kedge, folder: Path, *options: str, **environment: str) -> str:
    kedge.folder, before = folder, kedge.folder
    try:
        kedge("run", "job.yaml", *options, **environment)
    finally:
        kedge.folder = before
    return kedge.task_log()


def test_an_export_runs_without_the_original(kedge: Kedge) -> None:
    folder = kedge.folder / "project"
    write(kedge.folder / "market" / "script" / "sold.yaml", says("sold", "friend"))
    write(kedge.folder / "market" / "script" / "friend.yaml", says("friend"))
    write(kedge.folder / "outside" / "deep.yaml", [says("deep", "./deeper.yaml"), says("other")])
    write(kedge.folder / "outside" / "deeper.yaml", says("deeper"))
    write(folder / "items" / "both.yaml", says("both", "../../outside/deep.yaml#deep", "marketplace://script/sold"))
    write(folder / "rules.toml", RULE)
    write(kedge.folder / "more.toml", RULE.replace("never-seen", "never-seen-either"))
    write(folder / "src" / "main.sh", "cat $KEDGE_JOB_DIR/names; echo $1 $A $B $TAKEN\n")
    job = kedge.job(
        "sh main.sh <% $parameters.lr %>",
        roles={"worker": {"script": "code", "prerequisites": ["./items/both.yaml", "../outside/deep.yaml#other"]}},
        prerequisites=[{"name": "code", "type": "script", "uri": str(folder / "src")}],
        parameters={"lr": 1.0},
        extras={"kedge": {"rules": ["rules.toml"], "env": {"A": 1}, "taskRoles": {"worker": {"env": {"B": 1}}}}},
    ).rename(folder / "job.yaml")
    options = ("-p", "lr=2.0", "--env", "B=2", "--env", "TAKEN", "--rules", "more.toml", "--marketplace", "market")
    kedge("run", job, *options, TAKEN="mine")
    expected = "deeper\ndeep\nfriend\nsold\nboth\nother\n2.0 1 2 mine\n"
    assert kedge.task_log() == expected
    new = exported(kedge, "project", "outside", "market", "more.toml", "cache")
    assert run_there(kedge, new, "--env", "TAKEN", TAKEN="mine") == expected
    files = {str(file.relative_to(new)) for file in new.rglob("*") if file.is_file()}
    assert files >= {"job.yaml", "job.lock", "src/main.sh", "items/both.yaml", "files/deep.yaml", "rules.toml"}
    assert files >= {"rules/more.toml", "marketplace/index.json"}
    assert (new / "items" / "both.yaml").read_text().count("../files/deep.yaml#deep") == 1
    assert str(kedge.folder) not in "".join((new / file).read_text() for file in files)


def test_documents_from_the_web_are_kept_with_the_run_and_exported(kedge: Kedge) -> None:
    with serving() as server:
        url = server.serve("/deep/items.yaml?v=1", [says("one", f"{server.url}/two"), says("three")])
        server.serve("/two", yaml.safe_dump(says("two")))
        roles = {"worker": {"prerequisites": [f"{url}#one", f"{url}#three"]}}
        kedge("run", kedge.job("cat $KEDGE_JOB_DIR/names", roles=roles))
    expected = "two\none\nthree\n"
    assert kedge.task_log() == expected
    first = kedge.only_run().name
    shutil.rmtree(kedge.folder / "cache" / "kedge" / "items")
    assert again(kedge)[1] == expected
    kedge("rm", first)
    new = exported(kedge)
    assert run_there(kedge, new) == expected
    assert sorted(os.listdir(new / "files")) == ["items.yaml", "two.yaml"]


def test_a_file_without_anything_around_it_is_the_same(kedge: Kedge) -> None:
    job = kedge.job("echo done")
    kedge("run", job)
    assert kedge("show", "job", "--yaml").stdout == job.read_text()
    text = (exported(kedge) / "job.yaml").read_text()
    head, _, rest = text.partition("\n" + job.read_text().partition("\n")[0])
    assert head.endswith("In this folder, run it with:\n#     kedge run job.yaml")
    assert rest == "\n" + job.read_text().partition("\n")[2]


def test_the_first_lines_say_which_secrets_must_be_given(kedge: Kedge) -> None:
    secrets = {"token": SECRET, "keys": [{"name": "another-secret"}]}
    job = kedge.job("echo <% $secrets.token %> <% $secrets.keys[0].name %> | tr 2 _", secrets=secrets)
    job.write_text("# yaml-language-server: $schema=./x\n" + job.read_text())
    kedge("run", job, "--allow-fewer-gpus")
    new = exported(kedge)
    lines = (new / "job.yaml").read_text().split("\n")
    assert lines[0] == "# yaml-language-server: $schema=./x"
    command = "kedge run job.yaml --allow-fewer-gpus --secret 'keys[0].name=VALUE' --secret token=VALUE"
    assert lines[2] == f"#     {command}"
    assert "Its secrets were not stored" in lines[3]
    assert SECRET not in "".join(file.read_text() for file in new.rglob("*") if file.is_file())
    given = ("--secret", "token=token2", "--secret", "keys[0].name=key-2-key")
    assert run_there(kedge, new, *given) == "token_ key-_-key\n"


@pytest.mark.parametrize("options", [(), ("--workdir", "project")], ids=["file", "option"])
def test_the_folder_of_the_job_itself_and_links_out_of_it(kedge: Kedge, options: tuple[str, ...]) -> None:
    folder = kedge.folder / "project"
    write(folder / "deep" / "main.sh", "echo main\n").chmod(0o755)
    (folder / "out").symlink_to("/etc")
    (folder / "in").symlink_to("deep")
    script = {"name": "code", "type": "script", "uri": "./deep" if options else "."}
    kedge.job("in/main.sh", roles={"worker": {"script": "code"}}, prerequisites=[script]).rename(folder / "job.yaml")
    kedge("run", folder / "job.yaml", *options)
    done = kedge("show", "job", "--export", "copy")
    assert "out is a link that leads out of the code; it is not exported" in done.stderr
    new = exported(kedge, "project")
    assert run_there(kedge, new) == "main\n"
    assert os.access(new / "code" / ("workdir" if options else "code") / "deep" / "main.sh", os.W_OK)


def test_code_that_is_one_file(kedge: Kedge) -> None:
    write(kedge.folder / "project" / "main.sh", "echo main; ls\n")
    job = kedge.job(
        "sh main.sh", roles={"worker": {"script": "code"}},
        prerequisites=[{"name": "code", "type": "script", "uri": "./main.sh"}],
    ).rename(kedge.folder / "project" / "job.yaml")  # fmt: skip
    kedge("run", job)
    new = exported(kedge, "project")
    assert (new / "main.sh").is_file()
    assert run_there(kedge, new) == "main\nmain.sh\n"


def test_the_printed_file_runs_from_any_folder(kedge: Kedge, tmp_path: Path) -> None:
    write(kedge.folder / "project" / "src" / "main.sh", "echo main $1\n")
    job = kedge.job(
        "sh main.sh <% $parameters.lr %>", roles={"worker": {"script": "code"}}, parameters={"lr": 1},
        prerequisites=[{"name": "code", "type": "script", "uri": "./src"}],
    ).rename(kedge.folder / "project" / "job.yaml")  # fmt: skip
    kedge("run", job, "-p", "lr=2")
    shutil.rmtree(kedge.folder / "project")
    write(tmp_path / "elsewhere" / "copy.yaml", kedge("show", "job", "--yaml").stdout)
    kedge("run", tmp_path / "elsewhere" / "copy.yaml")
    assert kedge.task_log() == "main 2\n" * 2


def test_lost_values_are_named(kedge: Kedge) -> None:
    keys = {"secrets": {"token": SECRET}, "parameters": {"url": f"x-{SECRET}"}}
    kedge("run", kedge.job("echo <% $parameters.url %> <% $secrets.token %>", **keys))
    done = kedge("show", "job", "--export", "new")
    lost = "parameters.url: held a secret, which was not stored with the run; give it again with -p url=VALUE"
    assert f"note: {lost}" in done.stderr
    assert f"# {lost}" in (kedge.folder / "new" / "job.yaml").read_text()
    assert f"note: {lost}" in kedge("show", "job", "--yaml").stderr


@pytest.mark.parametrize("place", ["file", "folder/", "none/new", "link"])
def test_the_folder_must_be_new_or_empty(kedge: Kedge, place: str) -> None:
    kedge("run", kedge.job("true"))
    write(kedge.folder / "file", "kept")
    write(kedge.folder / "folder" / "file", "kept")
    (kedge.folder / "link").symlink_to("elsewhere")
    before = sorted(kedge.folder.rglob("*"))
    error = kedge("show", "job", "--export", place, code=2).stderr
    assert ("there is no folder" if "none" in place else "it exists and is not an empty folder") in error
    assert sorted(kedge.folder.rglob("*")) == before


def test_an_empty_folder_is_filled_and_stays_the_same_folder(kedge: Kedge) -> None:
    """A shell may be in it, and it may be a link or a mount."""
    kedge("run", kedge.job("true"))
    new, link = kedge.folder / "new", kedge.folder / "link"
    new.mkdir()
    link.symlink_to("new")
    before = new.stat().st_ino
    assert "exported to link; the first lines of link/job.yaml" in kedge("show", "job", "--export", "link").stdout
    assert os.listdir(new) == ["job.yaml"]
    assert (new.stat().st_ino, link.is_symlink()) == (before, True)


def test_nothing_is_left_of_an_export_that_fails(kedge: Kedge) -> None:
    write(kedge.folder / "src" / "main.sh", "echo main\n")
    code: dict[str, Any] = {"name": "code", "type": "script", "uri": "./src"}
    kedge("run", kedge.job("sh main.sh", roles={"worker": {"script": "code"}}, prerequisites=[code]))
    clear(kedge.only_run() / "code")
    (kedge.folder / "empty").mkdir()
    before = sorted(kedge.folder.rglob("*"))
    for place in ("x", "empty"):
        assert "copy of the code is not there any more" in kedge("show", "job", "--export", place, code=2).stderr
    assert sorted(kedge.folder.rglob("*")) == before


def test_the_exported_file_is_valid_with_its_schema(kedge: Kedge) -> None:
    kedge("run", kedge.job("true", parameters={"a": 1}), "-p", "a=b: #", "--env", "X=y")
    kedge("show", "job", "--export", "new")
    kedge("validate", "new/job.yaml")
    value = yaml.safe_load((kedge.folder / "new" / "job.yaml").read_text())
    assert (value["parameters"], value["extras"]) == ({"a": "b: #"}, {"kedge": {"env": {"X": "y"}}})
