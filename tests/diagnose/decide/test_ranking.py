"""Logs with several errors in them: the one that ended the process, or none; facts; and what only may have been."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kedge.diagnose.decide.classify import classify
from kedge.diagnose.log.hedges import only_possible
from kedge.diagnose.model import SURE, Diagnosis, Evidence
from kedge.diagnose.rules import compile, source
from kedge.diagnose.rules.packaged import packaged

RULES = packaged()
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79 GiB"
SHAPES = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x512 and 256x10)"
NO_FILE = "FileNotFoundError: [Errno 2] No such file or directory: 'cache.pkl'"
RESET = "ConnectionResetError: [Errno 104] Connection reset by peer"
TRUNCATED = "OSError: image file is truncated (3 bytes not processed)"


def raised(error: str, line: int = 88, where: str = "<module>", file: str = "train.py", call: str = "run()") -> str:
    """A traceback; `where` other than <module>: printed by who caught it."""
    return f'Traceback (most recent call last):\n  File "/work/{file}", line {line}, in {where}\n    {call}\n{error}\n'


def caught(error: str) -> str:
    return raised(error, 7, "load")


def of_rank(rank: int, text: str) -> str:
    return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())


def look(log: str, code: int | None = 1, **facts: float) -> Diagnosis:
    return classify(Evidence((("log", log.encode()),), code, facts), RULES)


def epochs(first: int, last: int) -> str:
    return "".join(f"epoch {number} loss 0.{number}\n" for number in range(first, last + 1))


class Story(NamedTuple):
    """What a log says, and the right answer."""

    log: str
    cause: str
    frame: str = ""
    code: int | None = 1


LAST_UNCAUGHT = {
    "printed at module level": Story(
        raised(NO_FILE, 5) + "computing it again\n" + raised("KeyError: 'label'", 30), "python_bug", "train.py:30"
    ),
    "directly after it": Story(raised(NO_FILE, 5) + raised("KeyError: 'label'", 30), "python_bug", "train.py:30"),
    "a probe of memory": Story(
        "ERROR:root:too large\n" + raised(OOM, 12) + "batch 32 now\n" + raised(SHAPES, 40),
        "shape_mismatch",
        "train.py:40",
    ),
    "a probe in a function": Story(
        caught(OOM) + raised("ModuleNotFoundError: No module named 'apex'", 40), "missing_module", "train.py:40"
    ),
    "an optional module": Story(
        raised("ModuleNotFoundError: No module named 'flash_attn'", 2) + raised(OOM, 55), "gpu_oom"
    ),
    "three retries": Story(
        "".join(f"WARNING attempt {number} failed\n" + caught(RESET) for number in range(3))
        + raised("AssertionError: loss diverged", 77),
        "python_bug",
        "train.py:77",
    ),
    "bad samples": Story(
        ("WARNING bad sample\n" + caught(TRUNCATED)) * 2 + raised("IndexError: list index out of range", 60),
        "python_bug",
        "train.py:60",
    ),
    "trials of a sweep": Story(
        "trial 1\n" + raised(NO_FILE, 5) + "trial 2\n" + raised("ZeroDivisionError: division by zero", 9),
        "python_bug",
        "train.py:9",
    ),
    "a prefix of its rank": Story(
        of_rank(2, raised(NO_FILE, 5) + raised("KeyError: 'label'", 30)), "python_bug", "train.py:30"
    ),
}
FIRST_STILL_WINS = {
    "another rank": Story(of_rank(1, raised("KeyError: 'x'", 5)) + of_rank(0, raised(RESET, 30)), "python_bug"),
    "a rank without a prefix": Story(raised("KeyError: 'x'", 5) + raised(RESET, 30), "python_bug", "train.py:5"),
    "while the interpreter ends": Story(
        raised("KeyError: 'x'", 30)
        + "Error in atexit._run_exitfuncs:\n"
        + raised("OSError: [Errno 5] Input/output error", 4, "close"),
        "python_bug",
        "train.py:30",
    ),
    "a child process": Story(
        "Process SpawnProcess-1:\n" + raised(NO_FILE, 5, "_bootstrap") + raised("_queue.Empty", 30),
        "data_file_missing",
        "train.py:5",
    ),
    "the next program of a script": Story(
        raised(NO_FILE, 5, file="prepare.py") + raised("FileNotFoundError: [Errno 2] No such file: 'out'", 30),
        "data_file_missing",
        "prepare.py:5",
    ),
}
STORIES = {**LAST_UNCAUGHT, **FIRST_STILL_WINS}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_the_last_uncaught_exception_of_a_rank_ended_it(story: Story) -> None:
    found = look(story.log, story.code)
    assert (found.cause, found.frame[: len(story.frame)]) == (story.cause, story.frame)


def test_a_line_number_of_any_length_is_compared() -> None:
    assert look(raised(NO_FILE, 5) + raised("KeyError: 'x'", 30).replace("30", "9" * 6000)).failed


SUCCEEDED = {
    "caught, OK": caught("KeyError: 'x'") + "falling back\nOK\n",
    "unittest": "ERROR: no cache\n" + caught(NO_FILE) + "-" * 70 + "\nRan 3 tests in 0.002s\n\nOK\n",
    "printed at module level, saved": raised("KeyError: 'x'") + "model saved to out.pt\n",
    "caught, a few steps": caught(RESET) + epochs(1, 3),
    "printed at module level, steps go on": epochs(1, 3) + raised(RESET) + epochs(4, 10),
    "download tried again": "ERROR download failed: HTTP Error 503: Service Unavailable\ngot 5 files\nfinished\n",
    "download resumed": "requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='a.b', port=443): Read timed out.\n"
    "Trying to resume download...\nmodel.safetensors: 100%|####| 1.2G/1.2G [00:10<00:00]\nModel saved to out/m.pt\n",
    "a smaller batch": "WARNING: CUDA out of memory, reducing batch size\n" + epochs(1, 3) + "finished training\n",
    "an error's line alone": f"{OOM}\nbatch size 4 -> 2\nJob completed successfully.\n",
}
FAILED = {
    "uncaught": (epochs(1, 3) + "model saved to a.pt\n" + raised("KeyError: 'x'"), "python_bug"),
    "a script's last words": (
        epochs(1, 3) + raised("KeyError: 'x'") + "Job finished at Mon Jan 1\ndone\n",
        "python_bug",
    ),
    "a script that praises": (epochs(1, 3) + raised("KeyError: 'x'") + "Training complete\n", "python_bug"),
    "buffered output": (
        "".join(f"{n}0%|##  | {n}/10 [00:10<00:20, 1.0it/s]\n" for n in range(9))
        + raised("KeyError: 'x'")
        + epochs(0, 9),
        "python_bug",
    ),
    "a bar after it": (
        "10%|#  | 9993/102600 [14:04<2:24:57, 10.65it/s]\n"
        + raised(SHAPES)
        + "10%|#  | 9997/102600 [14:05<2:17, 11it/s]\r" * 9,
        "shape_mismatch",
    ),
    "nothing between": (
        "python: can't open file 'trian.py': [Errno 2] No such file or directory\ndone\n",
        "entrypoint_missing",
    ),
    "killed": (epochs(1, 3) + "run.sh: line 3: 77 Killed   python train.py\nall done\n", "sigkill_unattributed"),
}


@pytest.mark.parametrize("log", SUCCEEDED.values(), ids=SUCCEEDED)
def test_without_an_exit_code_a_log_that_goes_on_to_success_is_not_a_failure(log: str) -> None:
    found = look(log, None)
    assert found.cause == "none_success"
    assert found.confidence != SURE


@pytest.mark.parametrize(("log", "cause"), FAILED.values(), ids=FAILED)
def test_without_an_exit_code_a_log_that_only_seems_to_go_on_is_a_failure(log: str, cause: str) -> None:
    assert look(log, None).cause == cause


PROVEN = [
    ("step 1\nuser.sh: line 2: 7 Bus error  (core dumped) python t.py\n", 135, {"shm_free_bytes": 0}, "shm_exhausted"),
    (
        "Fatal Python error: Bus error\n\nThread 0x0 (most recent call first):\n",
        135,
        {"shm_free_bytes": 4096},
        "shm_exhausted",
    ),
    ("step 1\nConnection closed by peer\n", 137, {"oom_kills": 1}, "host_oom_kill"),
    ("step 1\n", -9, {"oom_kills": 1}, "host_oom_kill"),
    (caught("KeyError: 'x'"), 137, {"oom_kills": 1}, "host_oom_kill"),
    (raised("EOFError"), 1, {"oom_kills": 2}, "host_oom_kill"),
    (raised(RESET), 1, {"oom_kills": 2}, "host_oom_kill"),
    (raised("KeyError: 'x'"), 1, {"oom_kills": 1}, "python_bug"),
    (
        raised("OSError: [Errno 5] Input/output error", call="torch.save(state, path)"),
        1,
        {"work_free_bytes": 0},
        "disk_full",
    ),
    (
        raised("OSError: [Errno 5] Input/output error", call="torch.save(state, path)"),
        1,
        {"work_free_bytes": 9 << 30},
        "storage_hang",
    ),
    (
        raised("RuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos 64 vs 0"),
        1,
        {"work_free_bytes": 0},
        "disk_full",
    ),
    (raised("KeyError: 'x'"), 1, {"work_free_bytes": 0}, "python_bug"),
    (
        raised("RuntimeError: CUDA driver version is insufficient for CUDA runtime version"),
        1,
        {"gpus": 0},
        "gpu_unavailable",
    ),
    (
        raised("RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment"),
        1,
        {"gpus": 0},
        "gpu_unavailable",
    ),
    (raised("RuntimeError: CUDA driver version is insufficient for CUDA runtime version"), 1, {}, "driver_mismatch"),
    (raised("KeyError: 'cuda'"), 1, {}, "python_bug"),
]


@pytest.mark.parametrize(("log", "code", "facts", "cause"), PROVEN)
def test_facts_overrule_the_log(log: str, code: int, facts: dict[str, float], cause: str) -> None:
    found = look(log, code, **facts)
    assert found.cause == cause
    assert found.evidence


@pytest.mark.parametrize(
    "said",
    [
        'pinging container registry localhost: Get "https://localhost/v2/": dial tcp [::1]:443: connect: refused',
        'Get "http://localhost/v2/": dial tcp 127.0.0.1:80: connect: connection refused',
    ],
)
def test_no_registry_answers_for_images_that_are_made_here(said: str) -> None:
    assert look(f"the image localhost/acme/train:1 cannot be pulled: {said}\n", 254).cause == "container_failure"
    assert look(said.replace("localhost", "a.example:5000"), 254).cause != "container_failure"


BOILERPLATE = [
    "The worker was preempted, died or restarted",
    "UNAVAILABLE: Failed to reach it. Either the leader task was preempted/died/restarted unexpectedly or not",
    "There are some potential root causes. This may be because the instance was preempted",
    "Possible reasons include: node failure, the job was preempted by the scheduler",
    "This can happen if the instance was preempted",
    "Check whether the machine was preempted",
]


@pytest.mark.parametrize("line", BOILERPLATE)
@pytest.mark.parametrize("code", [1, None])
def test_possibilities_prove_nothing(line: str, code: int | None) -> None:
    for log in (f"step 1\nERROR {line}\n", raised(f"AcmeError: {line}")):
        found = look(log, code)
        assert (found.cause, found.behaviour) != ("preempted", "transient")
        assert found.behaviour != "transient"


def test_facts_are_distinguished_from_possibilities() -> None:
    line = b"Detected 2 oom-kill events. Some of your processes may have been killed by the handler."
    assert not only_possible(line, 0, 20)
    assert only_possible(line, line.index(b"killed by"), len(line))
    assert look("ERROR: cluster train-1 was preempted\n").cause == "preempted"
    assert look(f"slurmstepd: error: {line.decode()}\n").cause == "host_oom_kill"


def test_no_example_of_a_rule_is_boilerplate() -> None:
    causes = {name: table["behaviour"] for name, table in source.read(source.CAUSES).items()}
    for path in compile.STOCK.glob("*.toml"):
        for name, table in source.read(path).items():
            if table["role"] == "root" and causes[table["cause"]] == "transient":
                codes = table.get("exit_codes", [1])
                assert all(
                    look(text, codes[0]).cause != "unknown" for text in table["matches"] if "evidence" not in table
                ), name
