"""Logs with several errors: which one ended the program, and whether any did."""

from __future__ import annotations

import pytest

from .case import SUCCESS, Case
from .conftest import Zoo
from .needs import NUMPY

ONE_STREAM = "python train.py 2>&1"  # so that the order of the lines is that of the program

CASES = [
    Case(
        "recovered error before the real one",
        "python_bug",
        """
        import traceback


        def load(name):
            try:
                return open(name).read()
            except FileNotFoundError:
                traceback.print_exc()
                print("ERROR: no cache, computing the features again")
                return "0 1 2"


        features = load("features.cache").split()
        print("step 1 loss 0.5")
        print("step 2 loss", features["last"])
        """,
        ONE_STREAM,
        frame="train.py:15",
    ),
    Case(
        "recovered error directly before the real one",
        "python_bug",
        """
        import traceback


        def load(name):
            try:
                return open(name).read()
            except FileNotFoundError:
                traceback.print_exc()
                return ""


        def train(features):
            return features["last"]


        train(load("features.cache"))
        """,
        frame="train.py:13 in train",
    ),
    Case(
        "retries that help, then another error",
        "data_file_missing",
        """
        import logging


        def fetch(attempt):
            if attempt < 3:
                raise ConnectionResetError(104, "Connection reset by peer")
            return "data"


        for attempt in range(4):
            try:
                fetch(attempt)
            except ConnectionError:
                logging.exception("attempt %d failed, trying again", attempt)
        print("epoch 0 done")
        open("labels.csv")
        """,
        ONE_STREAM,
        frame="train.py:16",
    ),
    Case(
        "logged, cleaned up, raised again",
        "missing_module",
        """
        import atexit
        import logging

        atexit.register(print, "closing 3 files\\nsummary: 0 errors in 12 checks\\nbye")
        try:
            import kedge_zoo_absent
        except ImportError:
            logging.exception("cannot start")
            raise
        """,
        ONE_STREAM,
        frame="train.py:6",
    ),
    Case(
        "first cause of a chain",
        "data_file_missing",
        """
        def load(name):
            try:
                return open(name)
            except OSError as error:
                raise RuntimeError("the data set could not be loaded") from error


        load("train.csv")
        """,
        frame="train.py:3 in load",
    ),
    Case(
        "cleaning up fails, too",
        "data_file_missing",
        """
        def train():
            with open("train.csv") as file:
                return file.read()


        try:
            train()
        finally:
            raise RuntimeError("the writer is already closed")
        """,
        frame="train.py:2 in train",
    ),
    Case(
        "errors while the interpreter ends",
        "python_bug",
        """
        class Writer:
            def __del__(self):
                raise OSError("the queue is already closed")


        writer = Writer()
        raise KeyError("loss")
        """,
        frame="train.py:7",
    ),
    Case(
        "a thread fails, the program goes on to another error",
        "python_bug",
        """
        import threading


        def report():
            open("metrics.sock")


        thread = threading.Thread(target=report)
        thread.start()
        thread.join()
        for epoch in range(30):
            print(f"epoch {epoch} loss {1 / (epoch + 1):.4f}")
        print([][epoch])
        """,
        ONE_STREAM,
        frame="train.py:13",
    ),
    Case(
        "exception group",
        "data_file_missing",
        """
        def read(name):
            with open(name) as file:
                return file.read()


        problems = []
        for name in ("a.csv", "b.csv"):
            try:
                read(name)
            except OSError as error:
                problems.append(error)
        raise ExceptionGroup("some shards cannot be read", problems)
        """,
    ),
    Case(
        "a child process of a pool fails",
        "python_bug",
        """
        import multiprocessing


        def work(item):
            return {"a": 1}[item]


        if __name__ == "__main__":
            with multiprocessing.Pool(2) as pool:
                print(pool.map(work, ["a", "b"]))
        """,
        frame="train.py:5 in work",
    ),
    Case(
        "a child process ends at once",
        "native_crash",
        """
        import os
        from concurrent.futures import ProcessPoolExecutor

        if __name__ == "__main__":
            with ProcessPoolExecutor(1) as pool:
                print(pool.submit(os.abort).result())
        """,
        "python -X faulthandler train.py",
    ),
    Case(
        "a launcher wraps the real error",
        "missing_module",
        """
        import subprocess
        import sys

        subprocess.run([sys.executable, "worker.py"], check=True)
        """,
        files={"worker.py": "print('worker starts')\nimport kedge_zoo_absent\n"},
        frame="worker.py:2",
    ),
    Case(
        "shell goes on after an error that it expects",
        "python_bug",
        "print('training')\nraise KeyError('labels')\n",
        """
        exec 2>&1
        rm data.old || echo "nothing to remove"
        python -c 'import kedge_zoo_absent' || echo "without the fast path"
        python train.py
        """,
        frame="train.py:2",
    ),
    Case(
        "prints tracebacks and succeeds",
        SUCCESS,
        """
        import logging
        import warnings

        for attempt in range(3):
            try:
                open("features.cache")
            except FileNotFoundError:
                logging.exception("no cache, attempt %d", attempt)
        warnings.warn("CUDA initialization: no driver", stacklevel=1)
        print("ERROR rate: 0.03, out of memory: 0, failed: 0, killed: none")
        print("Segmentation fault tolerant mode: on")
        print("training finished")
        """,
    ),
    Case(
        "a thread fails and the program succeeds",
        SUCCESS,
        """
        import threading

        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()
        print("training finished")
        """,
    ),
    Case("numpy warns and it succeeds", SUCCESS, "import numpy\nprint(numpy.log([0, 1]))\n", needs=(NUMPY,)),
    Case("fails without a word", "unknown", "import sys\nprint('epoch 1 done')\nsys.exit(3)\n"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_stories(zoo: Zoo, case: Case) -> None:
    zoo.expect(case)
