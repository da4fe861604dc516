"""Files that are missing, broken, locked or cannot be written."""

from __future__ import annotations

import pytest

from .case import Case
from .conftest import Zoo
from .needs import NUMPY
from .places import read_only_disk, small_disk

WRITE = """
    import os


    def save(path):
        {body}


    save(os.environ["DISK"] + "/result.bin")
"""

CASES = [
    Case("data missing", "data_file_missing", "print('loading')\nopen('data/train.csv')\n", frame="train.py:2"),
    Case("data folder missing", "data_file_missing", "import os\nos.listdir('data/train')\n", frame="train.py:2"),
    Case("weights missing", "checkpoint_missing", "open('runs/best/checkpoint.pt', 'rb')\n", frame="train.py:1"),
    Case("folder for results missing", "output_path_error", "open('out/log.csv', 'w')\n", frame="train.py:1"),
    Case("folder for results exists", "output_path_error", "import os\nos.mkdir('.')\n", frame="train.py:2"),
    Case("folder instead of a file", "output_path_error", "open('.', 'w')\n", frame="train.py:1"),
    Case("broken JSON", "data_corrupt", "import json\njson.load(open('a.json'))\n", files={"a.json": '{"rows": [1, 2'},
         frame="train.py:2"),
    Case("not a zip", "data_corrupt", "import zipfile\nzipfile.ZipFile('a.zip')\n", files={"a.zip": "no zip"},
         frame="train.py:2"),
    Case("not gzip", "data_corrupt", "import gzip\ngzip.open('a.gz').read()\n", files={"a.gz": "no gzip"},
         frame="train.py:2"),
    Case("gzip cut short", "data_corrupt", "import gzip\ngzip.open('a.gz').read()\n",
         "seq 9999 | gzip | head -c 900 > a.gz\npython train.py", frame="train.py:2"),
    Case("empty pickle", "data_corrupt", "import pickle\npickle.load(open('a.pkl', 'rb'))\n", files={"a.pkl": ""},
         frame="train.py:2"),
    Case("broken pickle", "data_corrupt", "import pickle\npickle.load(open('train.pkl', 'rb'))\n",
         files={"train.pkl": "a,b"}, frame="train.py:2"),
    Case("not UTF-8", "data_corrupt", "open('a.txt', encoding='utf-8').read()\n",
         r"printf 'label\377\376' > a.txt; python train.py", frame="train.py:1"),
    Case("broken array", "data_corrupt", "import numpy\nnumpy.load('a.npy')\n",
         "python -c 'import numpy; numpy.save(\"a.npy\", numpy.ones(99))'; truncate -s 300 a.npy; python train.py",
         frame="train.py:2", needs=(NUMPY,)),
    Case("disk full", "disk_full", WRITE.format(body="open(path, 'wb').write(bytes(1 << 20))"), place=small_disk,
         frame="train.py:5 in save"),
    Case("disk full, for numpy", "disk_full",
         WRITE.format(body="import numpy; numpy.save(path, numpy.ones(1 << 20))"), place=small_disk,
         frame="train.py:5 in save", needs=(NUMPY,)),
    Case("disk full, for the shell", "disk_full", command="head -c 999999 /dev/zero > $DISK/x.bin", place=small_disk),
    Case("disk full, on closing", "disk_full",
         WRITE.format(body="with open(path, 'wb', 1 << 21) as file: file.write(bytes(1 << 20))"), place=small_disk,
         frame="train.py:5 in save"),
    Case("disk read-only", "permission_denied", WRITE.format(body="open(path, 'wb')"), place=read_only_disk,
         frame="train.py:5 in save"),
    Case("too many open files", "bad_config", "files = []\nwhile True:\n    files.append(open('train.py'))\n",
         "ulimit -n 64\npython train.py", frame="train.py:3"),
    Case(
        "database locked",
        "lock_contention",
        """
        import sqlite3

        first, second = (sqlite3.connect("runs.db", timeout=0.1) for _ in range(2))
        first.execute("BEGIN EXCLUSIVE")
        second.execute("CREATE TABLE runs (name)")
        """,
        frame="train.py:5",
    ),
    Case(
        "file locked",
        "lock_contention",
        """
        import fcntl

        first, second = open("index.lock", "w"), open("index.lock", "w")
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        """,
        frame="train.py:5",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_files(zoo: Zoo, case: Case) -> None:
    zoo.expect(case)
