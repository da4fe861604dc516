"""What a site and a user configure, in real commands."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kedge import __version__

from .conftest import Kedge, Loaded

SKUS = "[skus.k80]\ncpu = 4\nmemoryMB = 8192\ngpu = 1\n[skus.cpu-small]\ncpu = 2\nmemoryMB = 1024\n"
Write = Callable[..., Path]


@pytest.fixture
def kedge(tmp_path: Path) -> Iterator[Kedge]:
    """Starts `kedge run` without --engine."""
    with closing(Loaded(tmp_path, engine="")) as made:
        yield made


@pytest.fixture
def site(kedge: Kedge) -> Write:
    """Writes the site's file, or (`who="user"`) the user's."""

    def write(text: str, who: str = "site") -> Path:
        path = kedge.folder / f"{who}.toml"
        path.write_text(text)
        kedge.environment[{"site": "KEDGE_SITE_FILE", "user": "KEDGE_CONFIG_FILE"}[who]] = str(path)
        return path

    return write


def hived(kedge: Kedge, sku: str, **resources: int) -> Path:
    role = {"resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0, **resources}}
    scheduler = {"jobPriorityClass": "prod", "taskRoles": {"worker": {"skuType": sku}}}
    return kedge.job("true", roles={"worker": role}, extras={"hivedScheduler": scheduler})


def engine_of(run: Path) -> str:
    return str(json.loads((run / "run.json").read_text())["engine"])


def test_the_engine_of_the_settings_runs_the_job_and_an_option_takes_precedence(kedge: Kedge, site: Write) -> None:
    file = site("\nengine = 'container'")
    planned = kedge("plan", kedge.job("true"))
    assert f"note: engine container ({file}:2)" in planned.stderr
    kedge("run", kedge.job("true"), "--engine", "local")
    assert engine_of(kedge.only_run()) == "local"
    assert "note: engine" not in kedge("plan", kedge.job("true"), "--engine", "local").stderr
    unknown = kedge("run", kedge.job("true"), code=2, KEDGE_ENGINE="contaner")
    assert unknown.stderr == "error: KEDGE_ENGINE: there is no engine 'contaner'; did you mean 'container'?\n"


def test_a_virtual_cluster_chooses_the_engine_and_its_options(kedge: Kedge, site: Write) -> None:
    file = site("engine = 'container'\n[virtual-clusters.here]\nengine = 'local'\noptions = {allow-fewer-gpus = true}")
    gpus = {"worker": {"resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 512}}}
    job = kedge.job("echo $PAI_VIRTUAL_CLUSTER", roles=gpus, defaults={"virtualCluster": "here"})
    done = kedge("plan", job)
    assert f"note: virtual cluster here: engine local ({file}:3)\nnote: --allow-fewer-gpus ({file}:4)\n" in done.stderr
    kedge("run", job)
    assert engine_of(kedge.only_run()) == "local"
    assert kedge.task_log() == "here\n"


def test_an_unknown_virtual_cluster_is_an_error_if_there_is_any(kedge: Kedge, site: Write) -> None:
    job = kedge.job("true", defaults={"virtualCluster": "prod1"})
    kedge("validate", job)
    site("[virtual-clusters.prod]\nengine = 'local'")
    refused = kedge("validate", job, code=2).stderr
    assert "defaults.virtualCluster: there is no virtual cluster 'prod1'; did you mean 'prod'?\n" in refused
    assert "job.yaml:18:19: defaults" in refused
    kedge("validate", kedge.job("true", defaults={"virtualCluster": "default"}))
    kedge("validate", kedge.job("true"))


def test_a_role_with_a_sku_requests_whole_cells(kedge: Kedge, site: Write) -> None:
    job = hived(kedge, "k80", gpu=2, memoryMB=20000)
    assert "1 CPU, 20000 MiB, 2 GPU" in kedge("plan", job).stdout
    file = site(SKUS)
    planned = kedge("plan", job)
    assert "12 CPU, 24576 MiB, 3 GPU" in planned.stdout
    assert f"worker: each task gets 3 × k80, which is 12 CPU, 24576 MiB, 3 GPU ({file}:2)" in planned.stderr
    assert "without effect in this version: hivedScheduler.jobPriorityClass\n" in planned.stderr


@pytest.mark.parametrize(
    ("sku", "gpu", "message"),
    [
        ("k8", 0, "hivedScheduler.taskRoles.worker.skuType: there is no SKU 'k8'; did you mean 'k80'?"),
        ("a100", 0, "hivedScheduler.taskRoles.worker.skuType: there is no SKU 'a100'; there are 'k80', 'cpu-small'"),
        ("cpu-small", 1, "taskRoles.worker.resourcePerInstance.gpu: the SKU 'cpu-small' has no GPU ({file}:6)"),
    ],
)
def test_a_sku_that_does_not_fit_is_an_error(kedge: Kedge, site: Write, sku: str, gpu: int, message: str) -> None:
    file = site(SKUS)
    assert message.format(file=file) in kedge("validate", hived(kedge, sku, gpu=gpu), code=2).stderr


def test_shares_of_cpus_add_up_to_what_they_are(kedge: Kedge, site: Write) -> None:
    """100 × 0.07 is 7.000000000000001 in binary fractions."""
    file = site("[limits.job]\ncpu = 7\n[limits.task]\ncpu = 2")
    roles = {"worker": {"instances": 100, "resourcePerInstance": {"cpu": 0.07, "memoryMB": 64, "gpu": 0}}}
    kedge("validate", kedge.job("true", roles=roles))
    roles["more"] = {"resourcePerInstance": {"cpu": 0.01, "memoryMB": 64, "gpu": 0}}
    found = kedge("validate", kedge.job("true", roles=roles), code=2).stderr
    assert f"the tasks of the job request 7.01 CPUs; limits.job.cpu is 7 ({file}:2)" in found


def test_a_job_above_the_limits_is_refused_with_each_of_them(kedge: Kedge, site: Write) -> None:
    file = site("[limits.job]\ntasks = 3\ncpu = 7\nmemoryMB = 255\n[limits.task]\ncpu = 1\nmemoryMB = 63\ngpu = 0")
    heavy = {"instances": 3, "resourcePerInstance": {"cpu": 2, "memoryMB": 64, "gpu": 1}}
    found = kedge("run", kedge.job("true", roles={"light": {}, "heavy": heavy}), code=2).stderr
    memory = f"each task requests 64 MiB of memory; limits.task.memoryMB is 63 ({file}:7)"
    for message in (
        f"heavy.instances: the job has 4 tasks; limits.job.tasks is 3 ({file}:2)",
        f"light.resourcePerInstance.memoryMB: {memory}",
        f"heavy.resourcePerInstance.memoryMB: {memory}",
        "heavy.resourcePerInstance.memoryMB: the tasks of the job request 256 MiB of memory; limits.job.",
        f"heavy.resourcePerInstance.cpu: each task requests 2 CPUs; limits.task.cpu is 1 ({file}:6)",
        f"heavy.resourcePerInstance.gpu: each task requests 1 GPU; limits.task.gpu is 0 ({file}:8)",
    ):
        assert f"taskRoles.{message}" in found
    assert "limits.job.cpu" not in found
    assert kedge.runs() == []


def test_a_site_limits_the_time_of_a_run(kedge: Kedge, site: Write) -> None:
    file = site("limits.job.timeLimit = '90s'")
    long = kedge.job("true", name="long", extras={"kedge": {"timeLimit": "2m"}})
    refused = kedge("validate", long, code=2).stderr
    assert f"extras.kedge.timeLimit: the run may take 2 min; limits.job.timeLimit is 90s ({file}:1)" in refused
    short = kedge("plan", kedge.job("true", name="short", extras={"kedge": {"timeLimit": 60}}))
    assert "1 min for the whole run" in short.stdout
    assert "the site" not in short.stderr
    file.write_text("limits.job.timeLimit = 0.5")
    job = kedge.job("echo started; sleep 600")
    assert f"note: the site ends the run after 0.5 s ({file}:1)" in kedge("plan", job).stderr
    done = kedge("run", job, code=1)
    assert "The job took longer than its time limit of 0.5 s (limits.job.timeLimit); kedge stopped it." in done.stdout
    assert "The site ends every job after this time" in done.stdout


def test_the_limit_of_code_names_its_setting(kedge: Kedge, site: Write) -> None:
    file = site("limits.job.codeMB = 1")
    code = kedge.folder / "code"
    code.mkdir()
    (code / "data").write_bytes(os.urandom(1100 << 10))
    done = kedge("run", kedge.job("true"), "--workdir", code, code=2)
    assert f"1.1 MiB is too much to copy for a job (the limit is 1.0 MiB, limits.job.codeMB of {file}:1)" in done.stderr
    site("limits.job.codeMB = 2")
    kedge("run", kedge.job("true"), "--workdir", code)


def test_the_marketplace_of_the_settings_is_below_that_of_the_environment(kedge: Kedge, site: Write) -> None:
    for name in ("of-site", "of-shell"):
        (kedge.folder / name).mkdir()
        (kedge.folder / name / "hello.yaml").write_text(
            f"name: hello\nplugin: cmd\ncallbacks: [{{event: taskStarts, commands: [echo hello {name}]}}]\n"
        )
    site("marketplace = 'of-site'", who="user")
    role = {"worker": {"prerequisites": ["marketplace://name/hello"]}}
    assert "echo hello of-site" in kedge("plan", kedge.job("true", roles=role)).stdout
    shell = kedge("plan", kedge.job("true", roles=role), KEDGE_MARKETPLACE=str(kedge.folder / "of-shell"))
    assert "echo hello of-shell" in shell.stdout
    site("marketplace = 'of-site'\nmarketplaces.shell.base = 'of-shell'", who="user")
    for choice in ("options", "variable", "job"):
        keys = {"extras": {"kedge": {"marketplace": "shell"}}} if choice == "job" else {}
        options = ("--marketplace", "shell") if choice == "options" else ()
        variables = {"KEDGE_MARKETPLACE": "shell"} if choice == "variable" else {}
        named = kedge("plan", kedge.job("true", roles=role, **keys), *options, **variables)
        assert "echo hello of-shell" in named.stdout


@pytest.mark.containers
def test_the_image_of_the_runtime_is_for_the_registry_of_the_site(kedge: Kedge, site: Write) -> None:
    image = kedge.folder / "image"
    assert "push" not in kedge("bundle", "--layers", "core", "--oci", image).stderr
    site("registry = 'registry.example.org:5000/team'")
    again = kedge.folder / "again"
    pushed = f"skopeo copy oci:{again} docker://registry.example.org:5000/team/kedge-runtime:{__version__}"
    assert pushed in kedge("bundle", "--layers", "core", "--oci", again).stderr
    file = site("registry = 'https://registry.example.org'")
    assert f"{file}:1:12: registry: " in kedge("config", code=2).stderr


def test_a_broken_file_stops_new_runs_only(kedge: Kedge, site: Write) -> None:
    kedge("run", kedge.job("echo done"))
    run = kedge.only_run().name
    file = site("engin = 'local'")
    message = f"error: {file}:1:1: engin: unknown key 'engin'; did you mean 'engine'?\n    engin = 'local'\n    ^\n"
    for command in ("run", "plan", "validate", "lock"):
        assert kedge(command, kedge.job("true"), code=2).stderr == message
    assert kedge("config", code=2).stderr == message
    assert kedge("config", "--check", file, code=2).stderr == message
    assert run in kedge("ps").stdout
    assert "done" in kedge("logs", run).stdout
    kedge("show", run)
    kedge("stop", run)
    kedge("rm", run)


def test_config_shows_each_value_and_where_it_comes_from(kedge: Kedge, site: Write) -> None:
    file = site("[engines.container]\nnetwork = 'host'\n[storages.data]\npath = '/srv'")
    found = kedge("config", KEDGE_ENGINE="container").stdout
    rows = {line.split()[0]: line.split()[1:] for line in found.splitlines()}
    assert rows["engine"] == ["container", "KEDGE_ENGINE"]
    assert rows["engines.container.network"] == ["host", f"{file}:2"]
    assert rows["engines.container.pids-limit"] == ["32768", "default"]
    assert rows["storages.data.path"] == ["/srv", f"{file}:4"]
    assert rows["limits.job.gpu"] == ["-", "default"]
    (entry,) = json.loads(kedge("config", "engines.container.network", "--json").stdout)["settings"]
    assert entry == {
        "key": "engines.container.network", "value": "host", "file": str(file), "line": 2, "variable": None,
    }  # fmt: skip
    wrong = kedge("config", "limits.job.gpus", code=2).stderr
    assert wrong == "error: there is no setting 'limits.job.gpus'; did you mean 'limits.job.gpu'?\n"
    assert kedge("config", "--check", file).stdout == f"{file}: no problems\n"


RULE = """[quota-of-{who}]
cause = "bad_config"
role = "root"
rank = 90
patterns = ['my quota of {who} is used up']
matches = ["my quota of {who} is used up"]
rejects = ["nothing"]
"""
EXIT_SPEC = """- code: 9000
  phrase: {phrase}
  issuer: USER_EXIT
  causer: USER
  type: USER_FAILURE
  stage: RUNNING
  behavior: PERMANENT
  reaction: NEVER_RETRY
  reason: quota
  patterns: [{{userLogRegex: my quota}}]
"""


def test_rules_of_the_settings_explain_failures_beside_those_of_the_option(kedge: Kedge, site: Write) -> None:
    for who in ("site", "job"):
        (kedge.folder / f"{who}-rules.toml").write_text(RULE.format(who=who))
    site("rules = ['site-rules.toml']")
    for who in ("site", "job"):
        log = kedge.folder / f"{who}.log"
        log.write_text(f"Error: my quota of {who} is used up\n")
        job = kedge.job(f"cat {log}; exit 1")
        done = kedge("run", "--rules", kedge.folder / "job-rules.toml", job, code=1)
        assert "bad_config" in done.stdout
        assert "bad_config" in kedge("diagnose", "--exit-code", 1, "--rules", "job-rules.toml", log).stdout
    assert "quota-of-site" in kedge("rules").stdout
    site("rules = ['missing.toml']")
    missing = kedge.folder / "missing.toml"
    assert kedge("run", job, code=2).stderr.endswith(f"error: {missing}: No such file or directory\n")


def test_an_exit_spec_of_the_job_replaces_that_of_the_settings(kedge: Kedge, site: Write) -> None:
    for who in ("site", "job"):
        (kedge.folder / f"{who}.yaml").write_text(EXIT_SPEC.format(phrase=f"of-{who}"))
    site("rules = ['site.yaml']")
    job = kedge.job("echo my quota >&2; exit 1", name="quota")
    assert "site.yaml take precedence" in kedge("plan", job).stdout
    assert "job.yaml take precedence" in kedge("plan", "--rules", kedge.folder / "job.yaml", job).stdout


def test_a_site_names_the_only_hosts_for_prerequisites(kedge: Kedge, site: Write) -> None:
    file = site("limits.hosts = ['market.example']")
    refused = kedge("validate", kedge.job("true"), "--allow-host", "evil.example", code=2).stderr
    assert refused == f"error: --allow-host evil.example: limits.hosts does not name this host ({file}:1)\n"
    role = {"worker": {"prerequisites": ["http://evil.example/x.yaml"]}}
    assert "the host evil.example is not allowed; allow it with --allow-host evil.example" in (
        kedge("validate", kedge.job("true", roles=role), code=2).stderr
    )
    kedge("validate", kedge.job("true"), "--allow-host", "MARKET.example")


def test_config_explains_a_single_setting(kedge: Kedge, site: Write) -> None:
    site("[virtual-clusters.a]\nengine = 'container'\noptions = {keep = true}\n[skus.b]\ncpu = 1\nmemoryMB = 1")
    for key, text in (
        ("limits.job.gpu", "GPUs of all tasks of a job together.\nMay be set by: the site's file\n"),
        (
            "skus.b.cpu",
            "Cores of one cell of this `skuType`.\nMay be set by: the site's file, the user's",
        ),
        ("virtual-clusters.a.options.keep", "Options of that engine; they take precedence over those in `engines`.\n"),
        ("engines.container.keep", "the user's file, KEDGE_ENGINES_CONTAINER_KEEP, --keep (the last one counts)\n"),
    ):
        assert text in kedge("config", key).stdout
    assert "May be set" not in kedge("config", "limits.job").stdout


def test_an_error_about_an_option_of_the_settings_comes_with_its_origin(kedge: Kedge, site: Write) -> None:
    file = site("limits.job.codeMB = 1\n[engines.local]\nallow-fewer-gpus = true")
    code = kedge.folder / "code"
    code.mkdir()
    (code / "data").write_bytes(os.urandom(1100 << 10))
    refused = kedge("run", "--workdir", code, kedge.job("true"), code=2).stderr
    assert refused.index(f"note: --allow-fewer-gpus ({file}:3)\n") < refused.index("error: ")
    assert "note: --allow" not in kedge("run", kedge.job("true")).stderr


def test_config_shows_no_password_of_an_address(kedge: Kedge, site: Write) -> None:
    site("marketplace = 'https://me:hunter2@market.example/'", who="user")
    for shown in ((), ("--json",)):
        done = kedge("config", "marketplace", *shown)
        assert "https://me:******@market.example/" in done.stdout
        assert "hunter2" not in done.stdout


def test_config_points_at_variables_that_match_no_setting(kedge: Kedge) -> None:
    done = kedge("config", KEDGE_ENGINES_CONTAINER_KEEPS="true")
    name = "KEDGE_ENGINES_CONTAINER_KEEP"
    assert f"note: {name}S matches no setting; did you mean '{name}'?\n" in done.stderr


def test_an_empty_list_of_storages_means_the_default_ones_of_the_settings(kedge: Kedge, site: Write) -> None:
    site("[storages]\na = {path = '/', default = true}\nb = {path = '/', default = false}\nc = {path = '/'}")
    for storages, expected in (([], ["a"]), ([{"name": "b"}], ["b"]), (None, [])):
        job = kedge.job("true", extras={"storages": storages})
        planned = json.loads(kedge("plan", job, "--json").stdout)
        assert [mount["name"] for mount in planned["storages"]] == expected


def test_a_storage_of_the_settings_needs_a_folder(kedge: Kedge, site: Write) -> None:
    file = site("engine = 'container'\nstorages.data.path = 'missing'")
    job = kedge.job("true", extras={"storages": [{"name": "data"}]})
    refused = kedge("plan", job, code=2).stderr
    assert f"error: {file}:2: storage data: there is no folder {kedge.folder}/missing\n" in refused
    assert f"{file}:2: storage data: there is no folder" in kedge("run", job, "--engine", "local", code=2).stderr
    near = kedge.job("true", extras={"storages": [{"name": "date"}]})
    for command in ("plan", "run"):
        refused = kedge(command, near, code=2).stderr
        assert ": extras.storages[0]: Storage date is not found; did you mean 'data'? You may use 'data'\n" in refused
    kedge("validate", near)  # it may be meant for another site


def test_a_rerun_obeys_the_settings_of_its_time_and_keeps_its_engine(kedge: Kedge, site: Write) -> None:
    auth = {"username": "me", "password": "hunter2hunter2"}
    image = {"name": "private", "type": "dockerimage", "uri": "x", "auth": auth}
    role = {"worker": {"dockerImage": "private"}}
    kedge("run", kedge.job("echo ran", roles=role, prerequisites=[image], defaults={"virtualCluster": "a"}))
    file = site("engine = 'container'\n[virtual-clusters.a]\nengine = 'container'\n[skus]")
    again = kedge("rerun", "job")
    assert "note: the password of the image private was not stored" in again.stderr
    assert [engine_of(run) for run in kedge.runs()] == ["local", "local"]
    file.write_text("limits.task.memoryMB = 63")
    assert f"limits.task.memoryMB is 63 ({file}:1)" in kedge("rerun", "job", code=2).stderr


def test_a_site_limits_how_long_a_failed_task_is_held(kedge: Kedge, site: Write) -> None:
    file = site("[limits.job]\nholdOnFailure = '10m'")
    refused = kedge("run", kedge.job("false"), "--hold-on-failure", "30m", code=2)
    limit = f"limits.job.holdOnFailure allows at most 10 min ({file}:2)"
    assert refused.stderr == f"error: --hold-on-failure: 30 min is too long; {limit}\n"
    assert (
        "the first task that fails is held for 10 min"
        in kedge("plan", kedge.job("false"), "--hold-on-failure=10m").stdout
    )
    site("[limits.job]\nholdOnFailure = 0")
    assert "allows no holds at all" in kedge("plan", kedge.job("false"), "--hold-on-failure", "1s", code=2).stderr
    assert "'soon' is not a duration" in kedge("plan", kedge.job("false"), "--hold-on-failure", "soon", code=2).stderr
