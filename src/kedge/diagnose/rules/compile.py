"""`python -m kedge.diagnose.rules.compile`: writes compiled.json from ../causes.toml and stock/*.toml.

A test compares them, so a rule that was changed but not compiled is detected.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from kedge.diagnose.rules import compiled_rules, source
from kedge.diagnose.rules.compiled_rules import CompiledRules
from kedge.diagnose.rules.packaged import COMPILED
from kedge.errors import InputError

STOCK = Path(__file__).with_name("stock")


def compiled() -> CompiledRules:
    """The contents of compiled.json. InputError if a packaged file is wrong."""
    causes = source.read(source.CAUSES)
    rules: list[list[Any]] = []
    for path in sorted(STOCK.glob("*.toml")):
        rules += source.rules(path, set(causes))
    names = [rule[0] for rule in rules]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"names used by several rules: {', '.join(twice)}")
    return compiled_rules.of(rules, causes)


def main() -> int:
    """Write the file. Return 2 and print the reasons if a rule is wrong."""
    try:
        Path(COMPILED).write_bytes(compiled_rules.text(compiled()))
    except InputError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
