"""Which rank failed first, as MPI's launchers name it."""

from __future__ import annotations

import pytest

from kedge.diagnose.decide.classify import classify
from kedge.diagnose.log.mpi_ranks import failed_first
from kedge.diagnose.model import Evidence
from kedge.diagnose.rules.packaged import packaged

# A line of a launcher -> what it names.
LINES = {
    "mpirun noticed that process rank 3 with PID 5626 on node worker-1 exited on signal 11 (Segmentation fault).": (
        "rank 3 on worker-1"
    ),
    "prterun noticed that process rank 0 with PID 9 on node n1 exited on signal 9 (Killed).": "rank 0 on n1",
    "  Process name: [[5716,1],3]": "rank 3",
    "   Process name: [prterun-node1-4711@1,2]": "rank 2",
    "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD": "rank 3",
    "application called MPI_Abort(MPI_COMM_WORLD, 5) - process 2": "rank 2",
    "=   RANK 1 PID 4711 RUNNING AT worker-1": "rank 1 on worker-1",
    "rank 3 is ready": "",
    "Primary job  terminated normally, but 1 process returned": "",
}


@pytest.mark.parametrize(("line", "rank"), LINES.items())
def test_a_launchers_line_names_the_rank(line: str, rank: str) -> None:
    assert failed_first([b"step 1", line.encode(), b"Process name: [[1,1],9]"]) == (rank or "rank 9")


def test_the_first_one_counts_and_none_is_no_rank() -> None:
    assert failed_first([b"step 1", b"done"]) == ""


def test_the_ranks_own_error_is_the_cause_and_the_launcher_names_the_rank() -> None:
    log = (
        'rank 0 of 4\nTraceback (most recent call last):\n  File "/work/train.py", line 6, in <module>\n'
        "    open('/data/labels.csv')\nFileNotFoundError: [Errno 2] No such file or directory: '/data/labels.csv'\n"
        "-----------------------------------------------------------------\n"
        "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n"
    )
    answer = classify(Evidence((("log", log.encode()),), 1), packaged())
    assert (answer.cause, answer.rank) == ("data_file_missing", "rank 3")


def test_an_exit_code_alone_is_the_launchers_word_on_the_rank() -> None:
    log = (
        "rank 0 of 4\nPrimary job  terminated normally, but 1 process returned\na non-zero exit code. Per "
        "user-direction, the job has been aborted.\n-----\nmpirun detected that one or more processes exited with "
        "non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n"
        "  Process name: [[5716,1],3]\n  Exit code:    9\n"
    )
    answer = classify(Evidence((("log", log.encode()),), 9), packaged())
    assert (answer.cause, answer.rank, answer.lone_symptom) == ("peer_failure", "rank 3", True)
    assert answer.evidence[0].text.strip() == "Process name: [[5716,1],3]"
