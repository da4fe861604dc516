"""The examples on the page about prerequisites work."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from .conftest import Folder, echo, names, scripts

PAGE = (Path(__file__).parents[2] / "docs" / "prerequisites.md").read_text()


def blocks(language: str) -> list[str]:
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found


def test_the_jobs_on_the_page_resolve(folder: Folder) -> None:
    first, output, numbers, references, share = blocks("yaml")
    job = folder.resolve(
        ["mnist"], prerequisites=[*yaml.safe_load(first)["prerequisites"], echo("tools", type="script")]
    )
    assert names(job) == ["tools", "mnist"]
    job = folder.resolve(["mnist"], prerequisites=yaml.safe_load(share)["prerequisites"])
    assert scripts(job) == {"mnist": "export MNIST_DIR=/mnt/nfs/mnist\n"}
    wanted = yaml.safe_load(output)
    document = yaml.safe_load(folder.job([], prerequisites=wanted["prerequisites"]))
    document["taskRoles"]["w"] |= wanted["taskRoles"]["worker"]
    [role] = folder.resolve_text(yaml.safe_dump(document)).roles
    assert role.command == ('python train.py --save "$KEDGE_OUTPUT_DIR/model"',)
    folder.write("market/data/numbers.yaml", numbers)
    text = folder.job(["data"], parameters={"count": 5}) + references
    job = folder.resolve_text(text, marketplace=str(folder.path / "market"))
    assert names(job) == ["numbers(count=5, order=up)", "data"]
    assert scripts(job) == {"numbers": "seq 5 > numbers.txt\n"}


def test_the_index_on_the_page_is_valid(folder: Folder) -> None:
    (index,) = blocks("json")
    folder.write("market/index.json", index)
    for entry in json.loads(index)["items"]:
        folder.write(f"market/{entry['path']}", echo(entry["name"]))
    inputs = {"marketplace": str(folder.path / "market")}
    assert names(folder.resolve(["marketplace://data/mnist", "marketplace://prerequisites/itemId/7"], inputs)) == [
        "mnist"
    ]
    assert folder.problem(["marketplace://name/mine"], inputs).code == "ForbiddenUserError"
    assert names(folder.resolve(["marketplace://name/mine"], {**inputs, "user": "alice"})) == ["mine"]


def test_every_reference_in_the_table_is_valid(folder: Folder) -> None:
    table = [line for line in PAGE.splitlines() if line.startswith("| `") and "|" in line[3:]]
    written = [
        text
        for line in table
        for text in re.findall(r"`([^`]+)`", line)
        if text.startswith(("./", "../", "/")) or "://" in text
    ]
    problems = folder.problems([text for text in written if text != "http://"])
    assert len(written) >= 6
    assert not [problem for problem in problems if "is invalid" in problem.message]
