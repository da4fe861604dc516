"""One task's evidence to its cause."""

from __future__ import annotations

import json
import random

import pytest

from kedge.diagnose.decide.classify import classify
from kedge.diagnose.model import Diagnosis, Evidence
from kedge.diagnose.rules.packaged import packaged

RULES = packaged()

OOM = """Traceback (most recent call last):
  File "/work/train.py", line 88, in <module>
    main()
  File "/work/train.py", line 12, in step
    y = model(x)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.00 GiB \
of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use.
"""
CAUGHT = """Traceback (most recent call last):
  File "/work/train.py", line 5, in load
    open(path)
FileNotFoundError: [Errno 2] No such file or directory: 'cache.json'
"""
KEY = """Traceback (most recent call last):
  File "/work/train.py", line 9, in <module>
    d["a"]
KeyError: 'a'
"""
HYDRA = "Error executing job with overrides: []\nError in call to target 'data.Images':\n"
HYDRA_TRACEBACK = """Traceback (most recent call last):
  File "/work/train.py", line 20, in main
    data = hydra.utils.instantiate(cfg.data)
hydra.errors.InstantiationException: Error in call to target 'data.Images':
"""
DIRECTLY = "\nThe above exception was the direct cause of the following exception:\n\n"
PANIC = "thread 'main' panicked at src/main.rs:42:10:\n"
READ = """Traceback (most recent call last):
  File "/work/train.py", line 9, in <module>
    with open(path, 'r') as file:
"""
WANDB_ENDS = """Traceback (most recent call last):
  File "/opt/lib/python3.10/site-packages/wandb/sdk/wandb_run.py", line 2500, in _atexit_cleanup
    self._on_finish()
wandb.sdk.lib.mailbox.MailboxError: transport failed
"""
CHILD = """E0101 torch/elastic/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 7) of binary: /usr/bin/python
Traceback (most recent call last):
  File "/usr/local/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
"""
WATCHDOG = "[rank1]:[E1218 ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught collective operation timeout: W()\n"
PROGRESS = "".join(f"epoch 1 step {n} loss 0.{n}\n" for n in range(60))


def answer(log: str, code: int | None = 1, **more: object) -> Diagnosis:
    return classify(Evidence((("user-all", log.encode()),), code)._replace(**more), RULES)


def test_cause_frame_and_evidence() -> None:
    found = answer("starting\n" + OOM)
    assert (found.cause, found.behaviour, found.confidence) == ("gpu_oom", "permanent", "sure")
    assert found.frame == "train.py:12 in step"
    assert (found.evidence[0].file, found.evidence[0].line) == ("user-all", 7)
    assert found.evidence[0].text.startswith("torch.OutOfMemoryError: CUDA")


def test_the_frame_of_an_error_logged_before_its_traceback() -> None:
    kernel = "/aten/cuda/Loss.cu:250: block: [0,0,0], thread: [3,0,0] Assertion `t >= 0 && t < n_classes` failed.\n"
    found = answer(kernel + OOM.replace("CUDA out of memory.", "CUDA error: device-side assert triggered."))
    assert (found.cause, found.frame) == ("gpu_device_assert", "train.py:12 in step")
    assert found.evidence[0].line == 1


def test_numbers_in_the_message_tell_whose_memory_it_is() -> None:
    assert answer(OOM.replace("78.00", "2.00")).cause == "gpu_oom_contention"


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (CAUGHT + "epoch 1\n" + KEY, "python_bug"),
        (CAUGHT + "using defaults\n" + KEY, "python_bug"),
        (KEY + CHILD, "python_bug"),
        (WATCHDOG + OOM.replace("\n", "\n[rank0]: ") + CHILD, "gpu_oom"),
        (WATCHDOG, "nccl_timeout"),
        (WATCHDOG + "terminate called after throwing an instance of 'c10::DistBackendError'\n", "nccl_timeout"),
        (OOM + "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2024-01-01T00:00:00 ***\n", "gpu_oom"),
        (
            "W bla: UserWarning: if you see CUDA out of memory. Tried to allocate, lower the batch size\n" + KEY,
            "python_bug",
        ),
        ("[WARNING] Connection reset by peer, retrying in 3 s\n" + KEY, "python_bug"),
        ("RuntimeError: CUDA error: device-side assert triggered\n", "gpu_device_assert"),
        ("some/script.sh: line 12: activate: No such file or directory\n" + KEY, "python_bug"),
        (CHILD, "peer_failure"),
        (PROGRESS + KEY, "python_bug"),
        ("nothing that anybody knows\n", "unknown"),
        (HYDRA + "FileNotFoundError(2, 'No such file or directory')\nfull_key: data\n", "data_file_missing"),
        (HYDRA + "ModuleNotFoundError(\"No module named 'x'\")\n", "missing_module"),
        (HYDRA_TRACEBACK + "FileNotFoundError(2, 'No such file or directory')\n", "data_file_missing"),
        (CAUGHT + DIRECTLY + HYDRA_TRACEBACK + "FileNotFoundError(2, 'No such file')\n", "data_file_missing"),
        (
            PANIC + 'called `Result::unwrap()` on an `Err` value: Error("missing field `x`", line: 7, column: 1)\n',
            "bad_config",
        ),
        (PANIC + "called `Option::unwrap()` on a `None` value\n", "native_crash"),
        (READ + "IsADirectoryError: [Errno 21] Is a directory: '/data'\n", "data_file_missing"),
        (READ.replace("'r'", "'w'") + "IsADirectoryError: [Errno 21] Is a directory: '/out'\n", "output_path_error"),
        (KEY + WANDB_ENDS, "python_bug"),
        (WANDB_ENDS, "tracker_failure"),
    ],
)
def test_the_error_that_ended_the_process(log: str, cause: str) -> None:
    assert answer(log).cause == cause


@pytest.mark.parametrize(
    "log",
    [
        PROGRESS,
        CAUGHT + PROGRESS + "Training finished\n",
        "WARNING: 0 errors, 0 warnings\n" + PROGRESS,
        "Exception ignored in: <function f>\n" + KEY + "done\n",
        "Number of failed attacks: 0\n",
        "",
    ],
)
def test_nothing_failed(log: str) -> None:
    assert answer(log, None).cause == "none_success"
    assert answer(log, 0).cause == "none_success"


def test_the_log_alone_decides_without_an_exit_code() -> None:
    assert answer(PROGRESS + KEY, None).cause == "python_bug"
    assert answer(PROGRESS + "fatal: the flux capacitor is in an impossible state\n", None).cause == "unknown"


@pytest.mark.parametrize(
    ("code", "facts", "cause"),
    [
        (137, {"oom_kills": 1.0}, "host_oom_kill"),
        (137, {}, "sigkill_unattributed"),
        (-9, {}, "sigkill_unattributed"),
        (143, {}, "sigterm_unattributed"),
        (139, {}, "native_crash"),
        (135, {"shm_free_bytes": 0.0}, "shm_exhausted"),
        (135, {}, "native_crash"),
        (127, {}, "command_not_found"),
        (126, {}, "permission_denied"),
        (130, {}, "user_interrupt"),
        (1, {}, "unknown"),
        (77, {}, "unknown"),
    ],
)
def test_a_bare_exit_code(code: int, facts: dict[str, float], cause: str) -> None:
    assert answer("epoch 1\n", code, facts=facts).cause == cause


HANDLED = """
During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/work/train.py", line 9, in <module>
    d.x
AttributeError: 'NoneType' object has no attribute 'x'
"""


def test_an_exception_that_was_being_handled_counts_only_if_it_is_specific() -> None:
    assert answer(CAUGHT + HANDLED).cause == "python_bug"
    assert answer(OOM + HANDLED).cause == "gpu_oom"


def test_a_task_that_was_asked_to_stop_did_not_fail_by_itself() -> None:
    assert answer("epoch 1\n", 137, stopped_by="completion policy").cause == "stopped_by_kedge"
    assert answer(KEY, 1, stopped_by="completion policy").cause == "python_bug"


def test_the_kernels_count_explains_a_kill_in_the_log() -> None:
    killed = "RuntimeError: DataLoader worker (pid 5) is killed by signal: Killed.\n"
    for log in ("run.sh: line 3: 77 Killed   python t.py\n", WATCHDOG, killed):
        assert answer(log, 137, facts={"oom_kills": 2.0}).cause == "host_oom_kill"
    assert answer(KEY, 1, facts={"oom_kills": 2.0}).cause == "python_bug"


def test_a_lone_symptom_says_that_the_cause_lies_elsewhere() -> None:
    assert answer(WATCHDOG).lone_symptom
    assert not answer(OOM).lone_symptom


def test_a_rule_may_have_its_own_remedy() -> None:
    log = "OSError: [Errno 24] Too many open files: '/data/shard-0121.tar'\n"
    unknown = answer(log).remedy
    known = answer(log, facts={"nofile": 1024.0}).remedy
    assert known == ("The task started with a limit of 1024 open files per process.", *unknown)
    assert any("ulimit -n" in step for step in unknown)
    assert answer(OOM).remedy == RULES.cause("gpu_oom").remedy


def test_symptoms_are_named_beside_the_cause() -> None:
    assert answer(OOM + CHILD).symptoms == ("peer_failure",)


def test_the_first_of_several_ranks() -> None:
    lines = [f"[rank2]: {line}" for line in OOM.splitlines()] + [f"[rank0]: {line}" for line in KEY.splitlines()]
    found = answer("\n".join(lines))
    assert (found.cause, found.rank) == ("gpu_oom", "rank2")


def test_a_line_of_another_rank_before_the_message() -> None:
    found = answer(KEY.replace("KeyError", "rank 0 starts\nKeyError") + CHILD)
    assert (found.cause, found.frame) == ("python_bug", "train.py:9")


@pytest.mark.parametrize("seed", range(20))
def test_mixed_output_of_several_ranks(seed: int) -> None:
    lost = KEY.replace("KeyError: 'a'", "RuntimeError: NCCL communicator was aborted on rank 1.")
    chance, ranks, mixed = random.Random(seed), [KEY.splitlines(), lost.splitlines()], []
    while any(ranks):
        mixed.append(chance.choice([rank for rank in ranks if rank]).pop(0))
    found = answer("\n".join([*mixed, CHILD]))
    assert found.cause == "python_bug"
    assert "KeyError" in found.evidence[0].text


def test_it_is_json_with_the_documented_keys() -> None:
    found = json.loads(json.dumps(answer(OOM).to_json()))
    assert {"cause", "behavior", "confidence", "evidence", "symptoms", "remedy", "exit_code"} <= set(found)
    assert set(found["evidence"][0]) == {"file", "line", "text"}


def test_the_error_file_counts_where_the_log_shows_nothing() -> None:
    found = answer(CHILD, 1, error_file=KEY)
    assert (found.cause, found.frame) == ("python_bug", "train.py:9")
    assert answer("", 1, error_file="ModuleNotFoundError: No module named 'x'").cause == "missing_module"


def test_last_words_are_those_of_the_task_not_of_the_runtime() -> None:
    said = b"[Sun Nov 22 05:57:10 UTC 2026] [openpai-runtime] "
    log = said + b"[INFO] USER COMMAND START\n" + said + b"in the hook\n" + said + b"[INFO] exit code 1\n"
    answer = classify(Evidence(logs=(("user-all", b""), ("runtime.log", log)), exit_code=1))
    assert [(quote.file, quote.line) for quote in answer.last_words] == [("runtime.log", 2)]
