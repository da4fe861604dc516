"""Whatever a framework, a specification, secrets or an exit specification hold: the programs of the init phase end with
an exit code and a reason, and show no secret."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from tests.dropin.framework_files import VARIABLES, checked_example

from kedge.dropin.init_log import InitLog
from kedge.dropin.paths import init_paths
from kedge.dropin.program import InitContext
from kedge.dropin.task import framework_parser, user_command

from .values import changes_of, edited, edits, junk, replaced

SECRET = "hunter2hunter2"
SPEC = {
    "commands": ["echo <% $secrets.token %>", "b"],
    "runtimePlugin": [
        {"plugin": "cmd", "parameters": {"preCommands": ["a"]}, "failurePolicy": "ignore"},
        {"plugin": "teamwise_storage", "parameters": {"storageConfigNames": ["x"]}},
    ],
}


def run(program: Any, files: dict[str, str], **variables: str) -> None:
    """Run a program in new folders with these files, and check how it ends."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "pai"
        for name, text in files.items():
            path = work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8", "surrogatepass")
        (work / "runtime.d").mkdir(parents=True, exist_ok=True)
        log = os.open(f"{folder}/log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
        before = os.getcwd()
        os.chdir(work)
        try:
            environment = {"PAI_WORK_DIR": str(work), "PATH": os.defpath, **VARIABLES, **variables}
            code = program.run(["framework.json"], InitContext(init_paths(environment), environment, InitLog((log,))))
        finally:
            os.chdir(before)
            os.close(log)
        text = (Path(folder) / "log").read_text(errors="replace")
        assert code in (0, 1)
        assert code == 0 or " - ERROR - " in text
        assert SECRET not in text
        task = work / "runtime.d/kedge-task.json"
        assert not task.exists() or SECRET not in task.read_text()


@settings(max_examples=40)
@given(changes_of(checked_example()))
def test_frameworks(changes: Any) -> None:
    framework = replaced(checked_example(), changes)
    run(framework_parser, {"framework.json": json.dumps(framework)}, USER_CMD="true")


@settings(max_examples=40)
@given(edits)
def test_texts_of_frameworks(changes: Any) -> None:
    run(framework_parser, {"framework.json": edited(json.dumps(checked_example(packed=True)), changes)})


@settings(max_examples=40)
@given(edits)
def test_configurations(changes: Any) -> None:
    framework = checked_example()
    annotations = framework["metadata"]["annotations"]
    annotations["config"] = edited(annotations["config"], changes)
    run(framework_parser, {"framework.json": json.dumps(framework)})


@settings(max_examples=40)
@given(changes_of(SPEC))
def test_specifications(changes: Any) -> None:
    spec = json.dumps(replaced(SPEC, changes))
    run(user_command, {"secrets/secrets.yaml": f"token: {SECRET}\n"}, RUNTIME_CONFIG=spec)


@settings(max_examples=40)
@given(edits, edits, junk)
def test_secrets_and_exit_specifications(changes: Any, others: Any, extension: Any) -> None:
    files = {
        "secrets/secrets.yaml": edited(f"token: {SECRET}\nother: {{a: [1]}}\n", changes),
        "runtime.d/runtime-exit-spec.yaml": edited("- containerExitCode: 3\n  patterns: [{exitCode: 1}]\n", others),
        "user-extension-secrets/userExtensionSecrets.yaml": json.dumps(extension),
    }
    run(user_command, files, RUNTIME_CONFIG=json.dumps(SPEC))
