"""What programs print when they fail, from messages/*.txt, and the cause that a diagnosis must name.

A case begins with `=== CAUSE[|CAUSE…][ exit N]: what it is`. `{tb}` stands for the head of a traceback of a user's own
program; `>> ` marks a line that the evidence must hold.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from kedge.diagnose.decide.classify import classify
from kedge.diagnose.model import Evidence
from kedge.diagnose.rules.packaged import packaged

RULES = packaged()
FOLDER = Path(__file__).parent / "messages"
MARK = ">> "
HEAD = re.compile(r"^=== (?P<causes>[\w|]+)(?: exit (?P<code>-?\d+))?: (?P<title>.+)$", re.MULTILINE)
TRACEBACK = """Traceback (most recent call last):
  File "/work/train.py", line 88, in <module>
    main()
  File "/work/train.py", line 61, in main
    run(options)"""


class Case(NamedTuple):
    """One text: the causes of which one must be named, the exit code, the text, and the lines of evidence."""

    title: str
    causes: list[str]
    code: int | None
    text: str
    marked: list[str]


def cases(path: Path) -> list[Case]:
    content = path.read_text(encoding="utf-8")
    heads = list(HEAD.finditer(content))
    ends = [head.start() for head in heads[1:]] + [len(content)]
    return [case(path, head, content[head.end() + 1 : end]) for head, end in zip(heads, ends, strict=True)]


def case(path: Path, head: re.Match[str], text: str) -> Case:
    marked = [line.removeprefix(MARK).strip() for line in text.splitlines() if line.startswith(MARK)]
    text = re.sub(f"^{MARK}", "", text, flags=re.MULTILINE).replace("{tb}", TRACEBACK)
    code = int(head["code"]) if head["code"] else None
    return Case(f"{path.stem}: {head['title']}", head["causes"].split("|"), code, text, marked)


CASES = [case for path in sorted(FOLDER.glob("*.txt")) for case in cases(path)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_the_cause_of_a_message_is_named(case: Case) -> None:
    answer = classify(Evidence((("log", case.text.encode()),), case.code), RULES)
    assert answer.cause in case.causes, f"{answer.rule}: {[quote.text for quote in answer.evidence]}"
    quoted = [quote.text for quote in answer.evidence]
    assert all(any(line in text for text in quoted) for line in case.marked), quoted
