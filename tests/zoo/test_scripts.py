"""Scripts with Windows line endings, in perl, with a limit, and under mpirun's tags."""

from __future__ import annotations

import pytest

from .case import Case
from .conftest import Zoo
from .needs import MPIRUN, program

PERL = program("perl")


def windows(name: str, cause: str, text: str, command: str = "chmod +x run.sh; ./run.sh") -> Case:
    return Case(name, cause, command=command, files={"run.sh": text.replace("\n", "\r\n")})


def perl(name: str, cause: str, text: str) -> Case:
    return Case(name, cause, command="perl prep.pl", files={"prep.pl": text}, needs=(PERL,))


CASES = [
    windows("Windows line endings, interpreter", "command_not_found", "#!/bin/bash\necho start\n"),
    windows("Windows line endings, env", "command_not_found", "#!/usr/bin/env bash\necho start\n"),
    windows("Windows line endings, option of dash", "syntax_error", "set -e\necho start\n", "dash run.sh"),
    windows("Windows line endings, loop", "syntax_error", "for i in 1 2\ndo\necho $i\ndone\n", "bash run.sh"),
    perl("perl, module missing", "missing_module", "use Kedge::Zoo::Absent;\n"),
    perl("perl, syntax", "syntax_error", "use strict;\nmy $x = ;\nprint $y;\n"),
    perl("perl, file missing", "data_file_missing",
         "open(my $f, '<', 'corpus.txt') or die \"Cannot open corpus.txt: $!\";\n"),
    perl("perl, division", "python_bug", "my $n = 0;\nprint 1 / $n;\n"),
    perl("perl, method of nothing", "python_bug", "my $model;\n$model->run();\n"),
    perl("perl, no such method", "python_bug",
         "package Model; sub new { bless {} }\npackage main;\nModel->new->run();\n"),
    Case("perl's script missing", "entrypoint_missing", command="perl prep.pl", needs=(PERL,)),
    Case("timeout", "time_limit", command="timeout 0.2 sleep 60"),
    Case("make without a rule", "bad_config", command="make trian", files={"Makefile": "train:\n\techo 1\n"},
         needs=(program("make"),)),
    Case(
        "mpirun that tags every piece",
        "python_bug",
        "import os\n\nif os.environ['OMPI_COMM_WORLD_RANK'] == '1':\n    print({'loss': 1}['acc'])\n",
        "mpirun --allow-run-as-root --oversubscribe --tag-output -np 2 python train.py",
        frame="train.py:4",
        needs=(MPIRUN,),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_scripts(zoo: Zoo, case: Case) -> None:
    zoo.expect(case)
