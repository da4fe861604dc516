"""Plugins of packages, found by their entry points in processes with these packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Packages, document, steps

GREET = """
from kedge.contract import TASK_STARTS
from kedge.plugins.base import Callback, Parameter, ParameterError, Steps, lines
from kedge.plugins.parameters import string

class Plugin:
    parameters = (Parameter("whom", string, "who is greeted", required=True),)

    def steps(self, values):
        if values["whom"] == "nobody":
            raise ParameterError("there is nobody to greet")
        return Steps((Callback(TASK_STARTS, lines([f"echo hello {values['whom']}"])),), environment={"GREETED": "1"})
"""


def with_steps(body: str) -> str:
    """A plugin without parameters and with this body of `steps`."""
    head = "from kedge.plugins.base import Steps\nimport os, signal\n"
    return f"{head}class Plugin:\n    parameters = None\n    def steps(self, values):\n        {body}\n"


ITEM = {"name": "a", "plugin": "greet", "whom": "you"}


def test_the_plugin_of_a_package_is_found_and_used(with_packages: Packages) -> None:
    (step,) = steps(with_packages(document(ITEM), {"hello": {"greet": GREET}}))
    assert step["callbacks"] == [{"event": "taskStarts", "script": "echo hello you\n"}]
    assert step["environment"] == {"GREETED": "1"}


def test_an_entry_of_the_extras_can_use_the_long_name(with_packages: Packages) -> None:
    entry = {"plugin": "com.microsoft.pai.runtimeplugin.greet", "parameters": {"whom": "us"}}
    (step,) = steps(with_packages(document(plugins=[entry]), {"hello": {"greet": GREET}}))
    assert step["callbacks"][0]["script"] == "echo hello us\n"


@pytest.mark.parametrize(
    ("source", "item", "message"),
    [
        (GREET, {"whom": "nobody"}, "prerequisites[1]: there is nobody to greet"),
        (GREET, {"whom": 1}, "prerequisites[1].whom: must be a string, not the number 1"),
        (GREET, {"plugin": "gret"}, "Plugin 'gret' is not supported; did you mean 'greet'?"),
        ("import no_such_module", {}, "the plugin greet (hello) cannot be loaded: ModuleNotFoundError"),
        ("class Other: pass", {}, "the plugin greet (hello) cannot be loaded: AttributeError"),
        (GREET.replace('if values["whom"] ==', "if 1 / 0 =="), {}, "failed: ZeroDivisionError: division by zero"),
        (GREET.replace("return Steps(", "return str("), {}, "the plugin greet (hello) failed: TypeError"),
        (GREET.replace("return Steps(", "return dict("), {}, "the plugin greet (hello) failed: "),
        (
            "class Plugin:\n    parameters = ('whom',)",
            {},
            "the plugin greet (hello) has parameters that are not a Parameter",
        ),
        ("class Plugin:\n    def steps(self, values): return 1", {}, "(hello) returned int, not Steps"),
        (
            "import sys; sys.exit()",
            {},
            "the plugin greet (hello) cannot be loaded: it called sys.exit(",
        ),
        (
            "class Plugin:\n def __init__(self): raise SystemExit(0)",
            {},
            "(hello) cannot be loaded: it called sys.exit(0)",
        ),
        ("class Plugin:\n parameters = property(lambda self: exit(3))", {}, "it called sys.exit(3)"),
        ("syntax error", {}, "the plugin greet (hello) cannot be loaded: SyntaxError: invalid syntax"),
        (with_steps("exit(0)"), {}, "the plugin greet (hello) failed: it called sys.exit(0) ("),
        (with_steps("raise KeyboardInterrupt"), {}, "the plugin greet (hello) failed: KeyboardInterrupt ("),
        (with_steps("raise GeneratorExit"), {}, "the plugin greet (hello) failed: GeneratorExit ("),
        (with_steps("return Steps(None)"), {}, "'callbacks' is not a tuple of Callback"),
        (with_steps("return Steps(notes=(1,))"), {}, "'notes' is not a tuple of strings"),
        (with_steps("return Steps(storages=(1,))"), {}, "'storages' is not a tuple of Storage"),
        (with_steps("return Steps(callbacks=(1,))"), {}, "'callbacks' is not a tuple of Callback"),
        (with_steps("return Steps(files=(n for n in ()))"), {}, "'files' is not a tuple of File"),
        (with_steps("return Steps(environment=5)"), {}, "'environment' is not a mapping"),
        (with_steps("return Steps(environment={1: 'a'})"), {}, "1 is not a variable name"),
        (with_steps("return Steps(environment={'A': '\\ud800'})"), {}, "U+D800 in the variable A is not a character"),
        (
            GREET.replace("string, ", "lambda v: exit(), "),
            {},
            "(hello) failed on its parameter 'whom': it called sys.exit",
        ),
        (GREET.replace("string, ", "lambda v: 1 / 0, "), {}, "'whom': ZeroDivisionError: division by zero"),
        (GREET.replace("TASK_STARTS,", '"whenever",'), {}, "'whenever' is not an event"),
    ],
)
def test_every_failure_is_one_clear_error(
    with_packages: Packages, source: str, item: dict[str, object], message: str
) -> None:
    done = with_packages(document({**ITEM, **item}), {"hello": {"greet": source}})
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_plugin_gives_a_note_if_failures_are_ignored(with_packages: Packages) -> None:
    done = with_packages(document({**ITEM, "failurePolicy": "ignore"}), {"hello": {"greet": "import no_such_module"}})
    assert steps(done) == []
    assert "cannot be loaded: ModuleNotFoundError" in done.stdout


def test_two_packages_with_the_same_plugin_are_an_error(with_packages: Packages) -> None:
    done = with_packages(document(ITEM), {"hello": {"greet": GREET}, "hullo": {"greet": GREET}})
    assert done.returncode == 2
    assert "several packages have a plugin greet: hello and hullo; uninstall all but one" in done.stderr


def test_no_package_replaces_a_built_in_plugin(with_packages: Packages) -> None:
    item = {"name": "a", "plugin": "cmd", "preCommands": ["echo mine"]}
    (step,) = steps(with_packages(document(item), {"hello": {"cmd": GREET}}))
    assert step["callbacks"][0]["script"] == "echo mine\n"


def test_an_executable_on_path_is_found(
    with_packages: Packages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(__file__).parents[2] / "examples" / "plugin-executable"
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    (step,) = steps(with_packages(document({"name": "a", "plugin": "timeline", "uri": "x", "file": "f"}), {}))
    assert step["environment"] == {"TIMELINE": "f"}


def test_prints_of_a_plugin_go_to_stderr(with_packages: Packages) -> None:
    done = with_packages(document(ITEM), {"hello": {"greet": "print('imported')\n" + GREET}})
    assert len(steps(done)) == 1
    assert "imported" in done.stderr


def test_the_user_can_interrupt_a_plugin(with_packages: Packages) -> None:
    done = with_packages(document(ITEM), {"hello": {"greet": with_steps("os.kill(os.getpid(), signal.SIGINT)")}})
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGQUIT"])
def test_other_signals_that_interrupt_a_command_do_so_in_a_plugin(with_packages: Packages, name: str) -> None:
    """As kedge run handles them; here the plugin's module does."""
    handles = f"import signal; signal.signal(signal.{name}, signal.default_int_handler)\n"
    code = handles + with_steps(f"os.kill(os.getpid(), signal.{name})")
    done = with_packages(document(ITEM), {"hello": {"greet": code}})
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "")
