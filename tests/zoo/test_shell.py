"""Commands that the shell cannot run."""

from __future__ import annotations

import os

import pytest

from .case import Case
from .conftest import Zoo
from .needs import COMPILER, program

# root may execute and read everything that has any x bit; without these capabilities it is like everybody else.
PLAIN = "setpriv --bounding-set=-dac_override,-dac_read_search " if os.geteuid() == 0 else ""

CASES = [
    Case("command not found", "command_not_found", command="echo start\nkedge-zoo-absent --epochs 3"),
    Case("not found in the middle of a pipe", "command_not_found", command="echo 1 | kedge-zoo-absent | sort"),
    Case("script missing", "entrypoint_missing", command="python src/train.py --epochs 3"),
    Case("shell script missing", "entrypoint_missing", command="bash scripts/train.sh"),
    Case("module to run missing", "missing_module", command="python -m kedge_zoo_absent.train"),
    Case(
        "not a program",
        "abi_mismatch",
        command=r"printf '\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\2\0\267\0' > tool; chmod +x tool; ./tool",
    ),
    Case(
        "interpreter missing",
        "command_not_found",
        command="chmod +x tool; ./tool",
        files={"tool": "#!/opt/absent/bin/python3.7\nprint(1)\n"},
    ),
    Case(
        "line ends of Windows",
        "command_not_found",
        command="bash run.sh",
        files={"run.sh": "set -e\necho start\r\nkedge-zoo-absent\r\n"},
    ),
    Case("not executable", "permission_denied", command="./tool", files={"tool": "#!/bin/sh\necho 1\n"}),
    Case("unbound variable", "bad_config", command="echo reading $DATA_ROOT/train"),
    Case("shell syntax", "syntax_error", command="if true; then echo 1; fi; done"),
    Case("shell syntax in a script", "syntax_error", command="sh run.sh", files={"run.sh": "for i in 1; do echo $i\n"}),
    Case("virtual environment missing", "shell_env_setup_failure", command="source venv/bin/activate\npython train.py"),
    Case("folder of data missing", "data_file_missing", command="cat data/part-*.csv | wc -l"),
    Case("copy into a folder that is not there", "output_path_error", command="cp train.py out/"),
    Case("output into a folder that is not there", "output_path_error", command="echo 1 > out/metrics.txt"),
    Case("archive missing", "data_file_missing", command="tar xzf data.tar.gz", needs=(program("tar"),)),
    Case("archive broken", "data_corrupt", command="head -c 5000 /dev/urandom > data.tar.gz\ntar xzf data.tar.gz"),
    Case(
        "may not be read",
        "permission_denied",
        command=f"echo 1 > data.csv; chmod 0 data.csv; {PLAIN}cat data.csv",
        needs=(program("setpriv"),),
    ),
    Case(
        "Python may not read it",
        "permission_denied",
        "print('loading')\nopen('data.csv')\n",
        f"echo 1 > data.csv; chmod 0 data.csv; {PLAIN}python train.py",
        frame="train.py:2",
        needs=(program("setpriv"),),
    ),
    Case("header missing", "extension_build_failure", command="gcc -shared -o fast.so fast.c", needs=(COMPILER,),
         files={"fast.c": "#include <kedge_zoo_absent.h>\n"}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_shell(zoo: Zoo, case: Case) -> None:
    zoo.expect(case)
