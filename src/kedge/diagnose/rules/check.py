"""`python -m kedge.diagnose.rules.check FILE...`: does every rule match its `matches` and none of its `rejects`?"""

from __future__ import annotations

import sys
from pathlib import Path

from kedge.diagnose.log.prefix import plain
from kedge.diagnose.regex import over_characters
from kedge.diagnose.rules import expression, source
from kedge.diagnose.rules.scan import match
from kedge.errors import InputError


def failures(path: Path, causes: set[str]) -> list[str]:
    """The examples of a rule file that fail, one line each. InputError if the file itself is wrong."""
    source.rules(path, causes)
    return [f"{path}: rule {name}: {text}" for name, table in source.read(path).items() for text in _wrong(table)]


def _wrong(table: dict[str, list[str]]) -> list[str]:
    patterns = [over_characters(text) for text in table["patterns"]]

    when = [expression.parse(text) for text in table.get("when", [])]

    def found(example: str) -> bool:
        lines = [plain(line) for line in example.encode().splitlines()]
        return any(match(p, when, line) is not None for p in patterns for line in lines)

    wrong = [f"does not match {text!r}" for text in table["matches"] if not found(text)]
    return wrong + [f"must not match {text!r}" for text in table["rejects"] if found(text)]


def main(paths: list[str]) -> int:
    """Print the examples that fail. Return 0 if there are none, 2 if a file cannot be used, else 1."""
    causes = set(source.read(source.CAUSES))
    try:
        wrong = [text for path in paths for text in failures(Path(path), causes)]
    except InputError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print("\n".join(wrong) or f"{len(paths)} file(s): all examples pass")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
