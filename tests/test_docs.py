"""What the documentation says, as far as a test can know."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from kedge import lazy_modules
from kedge.cli.main import COMMANDS
from kedge.engines.base import Engine
from kedge.resolve.model import Inputs
from kedge.resolve.resolve import resolve
from kedge.spec.parse import parse

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "examples" / "README.md"])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if "://" not in target:
            file, _, anchor = target.partition("#")
            found = page.parent / file if file else page
            assert found.exists(), f"{page.name}: {target}"
            if anchor:
                titles = re.findall(r"^#+ (.+)$", found.read_text(), re.MULTILINE)
                assert anchor in [re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles], target


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_files_and_scripts_that_are_named_exist(page: Path) -> None:
    text = page.read_text()
    for command in re.findall(r"(?:^    |^\$ |`)kedge ([a-z]+)", text, re.MULTILINE):
        assert command in COMMANDS, f"{page.name}: kedge {command}"
    for path in re.findall(
        r"`((?:src|docs|benchmarks|examples|tests|engines|plugins|policy|spec|resolve)/[\w./-]+\.\w+)`", text
    ):
        assert (ROOT / path).exists() or (ROOT / "src" / "kedge" / path).exists(), f"{page.name}: {path}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_options_that_are_named_exist(page: Path) -> None:
    for name, rest in re.findall(r"(?:^    |^\$ |`)kedge ([a-z]+)([^`\n#|]*)", page.read_text(), re.MULTILINE):
        command = importlib.import_module(f"kedge.cli.commands.{name}").command
        commands = [command, *getattr(command, "commands", {}).values()]
        known = {"--help", *(option for each in commands for parameter in each.params for option in parameter.opts)}
        for option in re.findall(r"(?<!\S)--?[a-z][a-z-]*", rest):
            assert option in known or {f"-{letter}" for letter in option[1:]} <= known, (
                f"{page.name}: kedge {name} {option}"
            )


def test_the_start_page_leads_to_every_page() -> None:
    start = ROOT / "docs" / "index.md"
    linked = {
        (start.parent / t).resolve() for t in re.findall(r"^- \[.+?\]\(([^)]+)\)", start.read_text(), re.MULTILINE)
    }
    assert {*PAGES} - {start, ROOT / "README.md"} == linked


def test_the_help_lists_every_command_with_the_first_sentence_of_its_own_help() -> None:
    assert list(COMMANDS) == list(lazy_modules.COMMANDS)
    for name, told in COMMANDS.items():
        command = lazy_modules.load_place(lazy_modules.COMMANDS[name])
        assert command.get_short_help_str(limit=200) == told


def test_the_job_of_the_readme_is_the_first_example() -> None:
    text = (ROOT / "README.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    modeline, _, job = block.partition("\n")
    assert modeline.startswith("# yaml-language-server: $schema=")
    assert job == (ROOT / "examples" / "hello.yaml").read_text()
    assert len(job.splitlines()) <= 12
    assert resolve(parse(job), Inputs("me")).roles[0].role.instances == 2


def test_what_an_engine_needs_is_told_in_full() -> None:
    members = {name for name in (*vars(Engine), *Engine.__annotations__) if not name.startswith("_")}
    (rows,) = re.findall(r"^\| member \| .*?\n\n", (ROOT / "docs/engines.md").read_text(), re.DOTALL | re.MULTILINE)
    named = {name for row in rows.strip().splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert members == named


def test_generated_pages_are_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for page, text in module.pages().items():
        if page.name != "errors.md":  # tests/e2e/test_error_index.py
            assert page.read_text() == text, "run: python docs/generate.py"


def test_every_benchmark_is_described() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    for script in (ROOT / "benchmarks").glob("*.py"):
        assert f"benchmarks/{script.name}" in text, script.name
