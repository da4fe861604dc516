"""Which incident ended the process, among noise before it and consequences after it."""

from __future__ import annotations

from itertools import zip_longest

import pytest

from kedge.diagnose.decide.classify import classify
from kedge.diagnose.model import Evidence
from kedge.diagnose.rules.packaged import packaged

RULES = packaged()
TRACE = """Traceback (most recent call last):
  File "/work/train.py", line 33, in <module>
    main()
  File "/work/train.py", line 20, in main
    run()
{}
"""
BEFORE = {
    "nothing": "",
    "warnings": "/x/image.py:13: UserWarning: Failed to load image Python extension: libx.so: cannot open\n",
    "set-up": "/var/spool/slurm_script: line 3: module: command not found\nhello\nstarting training\n",
    "shell": "mkdir: cannot create directory 'o': File exists\nrm: cannot remove 'x': No such file or directory\nrun\n",
    "retried": "HTTPSConnectionPool(host='a.b', port=443): Read timed out. Retrying in 1s [Retry 1/5].\nepoch 1\n",
    "scratch": "Error: no checkpoint found at last.pt, training from scratch\nepoch 1 loss 0.2\n",
    "pip": "ERROR: pip's dependency resolver does not currently take into account all packages.\nepoch 0\n",
    "overflow": "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0\nepoch 2\n",
    "python's warning": "/x/glfw.py:91: GLFWError: (65544) b'X11: The DISPLAY variable is missing'\nepoch 1\n",
    "gpu": "CUDA is not available, using CPU\nepoch 1\n",
    "nccl": "n1:77:77 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so)\nepoch 1\n",
    "logged": 'Traceback (most recent call last):\n  File "/x/a.py", line 5, in get\n    f()\nOSError: x\n'
    + "epoch 1\n" * 6,
}
AFTER = {
    "nothing": "",
    "wandb": "wandb: Waiting for W&B process to finish... (failed 1). Press Ctrl-C to abort syncing.\n",
    "torchrun": TRACE.format("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n=====\nFAILED"),
    "srun": "srun: error: n1: task 0: Exited with exit code 1\n"
    "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2023-01-01T00:00:00 ***\nsrun: error: n2: task 1: Terminated\n",
    "mpirun": "mpirun detected that one or more processes exited with non-zero status\n  Exit code:    1\n",
    "accelerate": TRACE.format("subprocess.CalledProcessError: Command '['python']' returned non-zero exit status 1."),
    "tracker's thread": "Thread ChkStopThr:\n" + TRACE.format("BrokenPipeError: [Errno 32] Broken pipe"),
    "ignored": "Exception ignored in: <function f at 0x7f>\n" + TRACE.format("AssertionError: can only test a child"),
    "aborted": "terminate called without an active exception\nrun.sh: line 9: 12 Aborted (core dumped) t\n",
    "time limit": "slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2023-01-01T00:00:00 DUE TO TIME LIMIT ***\n",
    "script goes on": "cp: cannot stat 'out/model.pt': No such file or directory\nJob finished at Mon Jan 1\n",
}
FAILURES = {
    "python_bug": TRACE.format("KeyError: 'a'"),
    "gpu_oom": TRACE.format("RuntimeError: CUDA error: out of memory"),
    "missing_module": TRACE.format("ModuleNotFoundError: No module named 'apex'"),
    "dtype_device_mismatch": TRACE.format(
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    ),
}


def cause(log: str, code: int | None = 1) -> str:
    return classify(Evidence((("log", log.encode()),), code), RULES).cause


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("before", BEFORE)
def test_the_failure_is_found_between_noise_and_consequences(before: str, after: str) -> None:
    found = {failure: cause(BEFORE[before] + log + AFTER[after]) for failure, log in FAILURES.items()}
    if before == "set-up":  # the modules that were not loaded may be why one is missing
        assert found.pop("missing_module") == "shell_env_setup_failure"
    assert all(failure == answer for failure, answer in found.items()), found


@pytest.mark.parametrize("before", BEFORE)
def test_noise_alone_is_not_a_failure(before: str) -> None:
    assert cause(BEFORE[before] + "epoch 3\n" * 10 + "Training finished\n", None) == "none_success"


PREFIXES = [
    "[rank1]: ", "[default3]:", "worker-0 | ", "(RayTrainWorker pid=1, ip=10.0.0.1) ", "3: ", "[1,2]<stderr>:",
    "\x1b[36m(train pid=12)\x1b[0m ", "[pod/w-0/main] ", "2024-01-01T00:00:00.0Z ", "2024-01-01T00:00:00.1Z stderr F ",
]  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
def test_prefixes_change_nothing(prefix: str) -> None:
    for failure, log in FAILURES.items():
        lines = (BEFORE["shell"] + log + AFTER["wandb"]).splitlines()
        assert cause("".join(f"{prefix}{line}\r\n" for line in lines)) == failure


def test_a_failed_setup_explains_a_missing_module() -> None:
    log = "CommandNotFoundError: Your shell has not been properly configured to use 'conda activate'.\n"
    assert cause(log + FAILURES["missing_module"]) == "shell_env_setup_failure"
    assert cause(log + FAILURES["python_bug"]) == "python_bug"


def test_an_oom_kill_explains_a_killed_worker() -> None:
    killed = TRACE.format("RuntimeError: DataLoader worker (pid 5) is killed by signal: Killed. ")
    assert cause(killed) == "sigkill_unattributed"
    assert cause(killed + "slurmstepd: error: Detected 1 oom_kill event in StepId=2.0.\n") == "host_oom_kill"


def test_a_cancelled_step_is_a_consequence_only_of_what_failed_before_it() -> None:
    cancelled = "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2023-01-01T00:00:00 ***\n"
    assert (
        cause("srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n" + cancelled)
        == "job_cancelled"
    )
    assert cause("srun: error: n1: task 3: Killed\n" + cancelled) == "sigkill_unattributed"


LOST_PEER = {
    "nccl": TRACE.format(
        "torch.distributed.DistBackendError: NCCL error in: x.cpp:1970, remote process exited or there was a "
    )
    + "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n",
    "network": "n1:44:99 [0] net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.1<4> with status=12\n"
    + TRACE.format("torch.distributed.DistBackendError: NCCL error in: x.cpp:1970, unhandled system error"),
    "gloo": TRACE.format("RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:12345"),
    "watchdog": "[E1218 ProcessGroupNCCL.cpp:629] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)\n",
}


def of_ranks(*logs: str) -> str:
    """The logs of several ranks, line by line."""
    lines = [[f"[rank{rank}]: {line}\n" for line in log.splitlines()] for rank, log in enumerate(logs)]
    return "".join(line for row in zip_longest(*lines, fillvalue="") for line in row)


@pytest.mark.parametrize("lost", LOST_PEER)
def test_a_rank_that_lost_its_peer_is_not_the_cause(lost: str) -> None:
    for failure, log in FAILURES.items():
        assert cause(of_ranks(LOST_PEER[lost], log)) == failure
        assert cause(of_ranks(log, LOST_PEER[lost])) == failure
    crash = "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n"
    if lost != "network":  # which says enough by itself
        assert cause(of_ranks(LOST_PEER[lost], crash)) == "native_crash"


def test_an_abort_follows_from_a_later_report_of_another_thread() -> None:
    abort = "(Worker pid=7) Fatal Python error: Aborted\n"
    watchdog = "(Worker pid=7) [E ProcessGroupNCCL.cpp:915] [Rank 1] NCCL watchdog thread terminated with exception: "
    assert cause(abort + watchdog + "CUDA error: an illegal memory access was encountered\n") == "gpu_illegal_access"
    assert cause(abort) == "native_crash"


def test_a_store_that_is_gone_after_a_time_out_is_only_fallout() -> None:
    timeout = "RuntimeError: [gloo/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete"
    lost = "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store failed"
    assert cause(TRACE.format(timeout) + TRACE.format(lost)) == "nccl_timeout"
    assert cause(TRACE.format(lost)) == "rendezvous_failure"


def test_a_step_is_cancelled_because_one_of_its_tasks_failed() -> None:
    cancelled = "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2023-01-01T00:00:00 ***\n"
    assert cause("ERROR on proc 617: the gnomes are gone\nsrun: Job step aborted\n" + cancelled) != "job_cancelled"
    assert cause("Bypassing signal SIGTERM\n" + cancelled) == "job_cancelled"


def test_lines_of_another_rank_are_not_part_of_an_exceptions_message() -> None:
    peer = TRACE.format("RuntimeError: [gloo/transport/tcp/pair.cc:5] Connection closed by peer [10.0.0.2]:1")
    assert cause(peer + "[rank0]: Floating point exception (core dumped)\n") == "native_crash"


@pytest.mark.parametrize(
    ("line", "error", "expected"),
    [
        ("assert args.batch_size % world == 0", "AssertionError", "bad_config"),
        ("assert x.shape[0] == 3", "AssertionError", "python_bug"),
        ("rate = config['rate']", "KeyError: 'rate'", "bad_config"),
        ("state = torch.load(path)", "EOFError: Ran out of input", "checkpoint_corrupt"),
        ("record = pickle.load(file)", "EOFError: Ran out of input", "data_corrupt"),
    ],
)
def test_the_failing_line_refines_the_kind_of_an_exception(line: str, error: str, expected: str) -> None:
    assert cause(TRACE.replace("run()", line).format(error)) == expected


@pytest.mark.parametrize(
    "ended",
    [
        "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2024-01-01T00:00:00 DUE TO PREEMPTION ***",
        "(raylet) 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed",
    ],
)
def test_the_end_of_an_earlier_run_is_not_a_failure_of_the_one_that_finished(ended: str) -> None:
    again = "".join(f"epoch {n} loss 0.2\n" for n in range(60))
    assert cause(f"epoch 1\n{ended}\n{again}Training finished.\n", None) == "none_success"
    assert cause(f"epoch 1\n{ended}\n{again}", None) != "none_success"


@pytest.mark.parametrize(
    "reason", ["Cuda failure 2 'out of memory'", "NCCL WARN Call to posix_fallocate failed : No space left on device"]
)
def test_errors_of_cuda_or_the_system_beat_nccls_report_of_them(reason: str) -> None:
    reported = "ERROR worker.py:5] torch.distributed.DistBackendError: NCCL error in: x.cpp:7, unhandled cuda error"
    assert cause(f"epoch 1\n{reported}\n{reason}\n") in ("gpu_oom", "shm_exhausted")
    assert cause(f"epoch 1\n{reported}\n") == "nccl_init_error"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("acme.errors.StoreTimeout: no answer", "network_transient"),
        ("acme.errors.ServiceUnavailableError", "network_transient"),
        ("acme.errors.SessionClosedError: gone", "peer_failure"),
        ("acme.errors.TooManyColours: 7", "python_bug"),
        ("RuntimeError: acme: the request timed out", "network_transient"),
        ("RuntimeError: bad value for the timeout", "python_bug"),
    ],
)
def test_an_unknown_error_is_called_a_bug_only_without_other_evidence(error: str, expected: str) -> None:
    assert cause("epoch 1\n" + TRACE.format(error)) == expected
