"""Measures the accuracy of the diagnosis on folders of labelled logs.

    python benchmarks/diagnosis_accuracy.py [FOLDER...] [-v] [--rules FILE]

FOLDER contains logs and `labels.tsv` (benchmarks/failure_logs/README.md describes its columns); the default is all
folders of benchmarks/failure_logs. Prints how often the cause and the quoted line were right and how often a verdict
was wrongly permanent, abstentions, false alarms, misses and a table by class.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from kedge.diagnose.decide.classify import classify
from kedge.diagnose.exit_spec import exitspec
from kedge.diagnose.log.prefix import plain
from kedge.diagnose.model import NONE, PERMANENT, TRANSIENT, UNKNOWN, Diagnosis, Evidence
from kedge.diagnose.rules.rule_files import load
from kedge.diagnose.rules.ruleset import RuleSet

LOGS = Path(__file__).with_name("failure_logs")


def table(path: Path) -> list[dict[str, str]]:
    """The rows of a tab-separated file without quoting."""
    head, *rows = path.read_text(encoding="utf-8").split("\n")
    return [dict(zip(head.split("\t"), row.split("\t"), strict=False)) for row in rows if row.strip()]


def bare(text: str) -> str:
    return plain(text.strip().encode()).decode("utf-8", "replace").strip()


def quoted(answer: Diagnosis, row: dict[str, str]) -> bool:
    """Whether a line of the answer contains a labelled line, or is a part of one with at least 12 characters."""
    wanted = [bare(row[key]) for key in ("root_cause_line", "other_evidence") if row.get(key)]
    given = [bare(quote.text) for quote in answer.evidence]
    return any(w in g or (len(g) >= 12 and g in w) for w in wanted for g in given)


def accepted(row: dict[str, str]) -> set[str]:
    return {row["root_cause_class"], *(row.get("also_accepted") or "").split(",")} - {""}


def share(part: int, whole: int) -> str:
    return f"{part}/{whole} = {part / whole:.3f}" if whole else "0/0"


# The codes of the stock exit specification (OpenPAI's, with kedge's entries) as causes, in its favour if ambiguous.
BASELINE = {
    0: NONE, 130: "user_interrupt", 131: "user_interrupt", 132: "native_crash", 134: "native_crash",
    135: "native_crash", 136: "native_crash", 137: "sigkill_unattributed", 139: "native_crash", 141: "peer_failure",
    143: "sigterm_unattributed",
    220: "command_not_found", 221: "gpu_oom", 222: "native_crash", 223: "gpu_hw_fault", 224: "driver_mismatch",
    225: "abi_mismatch", 226: "gpu_oom", 228: "bad_config", 229: "data_file_missing", 230: "checkpoint_missing",
    231: "python_bug", 232: "missing_module", 233: "python_bug", 234: "native_crash", 235: "native_crash",
}  # fmt: skip


def baseline(rows: list[dict[str, str]], folder: Path) -> str:
    """How often the stock exit specification names the cause (a log without a code counts as exit code 1)."""
    spec, right, unknown = exitspec.stock(), 0, 0
    high = [row for row in rows if row["confidence"] == "high"]
    for row in high:
        code = int(row["exit_code"] or 1) & 255
        found = spec.match(code, (folder / row["file"]).read_bytes(), b"") if code else None
        cause = BASELINE.get(found.code if found else 0, UNKNOWN)
        right += cause in accepted(row)
        unknown += cause == UNKNOWN
    return f"{share(right, len(high))}, unknown {share(unknown, len(high))}"


def report(answers: list[tuple[dict[str, str], Diagnosis]], rules: RuleSet) -> None:
    high = [(row, a) for row, a in answers if row["confidence"] == "high"]
    failed = [(row, a) for row, a in high if row["root_cause_class"] != NONE]
    right = [(row, a) for row, a in high if a.cause in accepted(row)]
    transient = [a for row, a in high if rules.cause(row["root_cause_class"]).behaviour == TRANSIENT]
    successes = [(row, a) for row, a in answers if row["root_cause_class"] == NONE]
    print("accuracy (top 1)  ", share(len(right), len(high)))
    print("evidence line     ", share(sum(quoted(a, row) for row, a in failed), len(failed)))
    print("false permanent   ", share(sum(a.behaviour == PERMANENT for a in transient), len(high)))
    print("abstained         ", share(sum(a.cause == UNKNOWN for _, a in high), len(high)))
    print("missed            ", share(sum(a.cause == NONE for _, a in failed), len(failed)))
    print("false alarms      ", share(sum(a.cause not in accepted(row) for row, a in successes), len(successes)))
    by_class(Counter(row["root_cause_class"] for row, _ in high), Counter(row["root_cause_class"] for row, _ in right))


def by_class(total: Counter[str], hits: Counter[str]) -> None:
    for name in sorted(total):
        print(f"  {name:32s} {hits[name]:3d} of {total[name]}")


def answer(row: dict[str, str], folder: Path, rules: RuleSet) -> Diagnosis:
    code = int(row["exit_code"]) if row["exit_code"] else None
    return classify(Evidence(((row["file"], (folder / row["file"]).read_bytes()),), code), rules)


def measure(folder: Path, rules: RuleSet, verbose: bool) -> None:
    rows = table(folder / "labels.tsv")
    answers = [(row, answer(row, folder, rules)) for row in rows]
    for row, a in answers if verbose else ():
        if a.cause not in accepted(row) or (row["root_cause_class"] != NONE and not quoted(a, row)):
            text = a.evidence[0].text[:150] if a.evidence else ""
            wanted = row["root_cause_class"]
            print(f"{row['file']} {row['confidence']} wanted {wanted}, got {a.cause} ({a.rule}): {text}")
    print(folder)
    print("the stock exit specification:", baseline(rows, folder))
    report(answers, rules)


def main() -> None:
    parser = argparse.ArgumentParser(description="Accuracy of the diagnosis on labelled logs.")
    parser.add_argument("folders", type=Path, nargs="*", metavar="FOLDER")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every wrong answer")
    parser.add_argument("--rules", type=Path, action="append", default=[], help="an additional rule file")
    options = parser.parse_args()
    rules = load(options.rules)
    for folder in options.folders or sorted(path.parent for path in LOGS.glob("*/labels.tsv")):
        measure(folder, rules, options.verbose)


if __name__ == "__main__":
    main()
