"""Engines by their names: built in, and in packages that may be broken."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kedge import entry_points
from kedge.engines import registry
from kedge.engines.container.engine import ContainerEngine
from kedge.engines.kubernetes.engine import KubernetesEngine
from kedge.engines.local.engine import LocalEngine
from kedge.engines.slurm.engine import SlurmEngine
from kedge.errors import CannotRun, InputError

Install = Callable[..., None]

MINE = """
from kedge.engines.kubernetes.engine import KubernetesEngine
from kedge.engines.local.engine import LocalEngine
class Mine(LocalEngine):
    name = "mine"
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package that brings one engine, with the class Mine of this source."""
    monkeypatch.syspath_prepend(tmp_path)
    modules = set(sys.modules)

    def add(source: str, name: str = "mine", package: str = "pack") -> None:
        about = tmp_path / f"{package}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[kedge.engines]\n{name} = {package}_code:Mine\n")
        (tmp_path / f"{package}_code.py").write_text(source)
        entry_points.by_name.cache_clear()

    yield add
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    entry_points.by_name.cache_clear()


def test_an_engine_of_a_package_is_made_and_listed(install: Install) -> None:
    install(MINE)
    made = registry.make("mine", allow_fewer_gpus=True)
    assert (made.name, made.options) == ("mine", {"allow_fewer_gpus": True})
    assert registry.engine_names() == ["local", "container", "slurm", "kubernetes", "mine"]


def test_no_package_takes_the_place_of_a_built_in_engine(install: Install) -> None:
    install(MINE.replace('"mine"', '"local"'), name="local")
    assert type(registry.make("local")) is LocalEngine
    assert registry.engine_names() == ["local", "container", "slurm", "kubernetes"]


def test_packages_are_looked_at_only_for_names_that_are_not_built_in() -> None:
    entry_points.by_name.cache_clear()
    for name in registry.ENGINES:
        registry.make(name)
    assert entry_points.by_name.cache_info().misses == 0
    with pytest.raises(registry.UnknownEngine):
        registry.make("mine")
    assert entry_points.by_name.cache_info().misses == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import no_such_module", "the engine mine (pack) cannot be loaded: ModuleNotFoundError: .*pack_code.py:1"),
        ("import sys; sys.exit(3)", "the engine mine (pack) cannot be loaded: it called sys.exit(3)"),
        ("Other = 1", "the engine mine (pack) cannot be loaded: AttributeError"),
        ("Mine = 7", "the engine mine (pack) is not a class: 7"),
        (
            "class Mine:\n name = 'mine'\n accepts = ()",
            "is incomplete: its class has no check, exec, forget, forward, in_cluster, load, ",
        ),
        (MINE + "    accepts = ('nice',)", "its `accepts` must be a tuple of EngineOption"),
        (MINE.replace('"mine"', '"other"'), "the engine mine (pack): its class has another name, 'other'"),
        (MINE + "    def __init__(self): 1 / 0", "the engine mine (pack) cannot be created: ZeroDivisionError"),
        (MINE + "    def __init__(self): pass", "the engine mine (pack) is incomplete: it has no options"),
    ],
)
def test_a_broken_engine_is_one_clear_error(install: Install, source: str, message: str) -> None:
    install(source)
    start, _, end = message.partition(".*")
    with pytest.raises(CannotRun) as caught:
        registry.make("mine")
    assert start in str(caught.value)
    assert end in str(caught.value)


def test_two_packages_with_the_same_engine_are_an_error(install: Install) -> None:
    install(MINE)
    install(MINE, package="pick")
    with pytest.raises(CannotRun, match="several packages have an engine mine: pack and pick; uninstall all but one"):
        registry.make("mine")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("locall", "there is no engine 'locall'; did you mean 'local'?"),
        (
            "cloud",
            "there is no engine 'cloud'; available: local, container, slurm, kubernetes, and those of installed "
            "packages",
        ),
    ],
)
def test_a_name_that_no_engine_has(name: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        registry.make(name)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("local", {"network": "host"}, "the local engine has no option --network; it has --allow-fewer-gpus"),
        ("container", {"nice": 3}, "the container engine has no option --nice; it has --allow-fewer-gpus, --network, "),
        ("container", {"network": "none"}, "--network of the container engine must be one of job, host, not 'none'"),
        ("container", {"pids_limit": 3}, "--pids-limit of the container engine must be a whole number of at least 16"),
        ("container", {"pids_limit": True}, "must be a whole number of at least 16, not True"),
        ("local", {"allow_fewer_gpus": 1}, "--allow-fewer-gpus of the local engine must be true or false, not 1"),
    ],
)
def test_options_are_checked_by_what_the_engine_declares(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        registry.make(name, **options)
    assert message in str(caught.value)


def test_options_that_are_not_given_are_left_out() -> None:
    assert registry.make("local", network=None, user="", keep=False).options == {"allow_fewer_gpus": False}


def test_options_come_as_texts_too() -> None:
    texts = {"keep": "yes", "pids_limit": "100", "network": "host", "allow_fewer_gpus": "false"}
    values = registry.read_options("container", texts)
    assert values == {"keep": True, "pids_limit": 100, "network": "host", "allow_fewer_gpus": False}
    for wrong in ({"keep": "perhaps"}, {"pids_limit": "many"}, {"pids_limit": "1"}, {"network": "a"}):
        with pytest.raises(InputError, match="of the container engine must be "):
            registry.read_options("container", wrong)


@pytest.mark.parametrize("cls", [LocalEngine, ContainerEngine, SlurmEngine, KubernetesEngine])
def test_an_engine_declares_all_that_its_class_takes(cls: Any) -> None:
    assert [option.name for option in cls.accepts] == list(cls().options)


def test_the_example_of_the_manual_is_the_package_that_the_tests_install() -> None:
    root = Path(__file__).parents[2]
    page, package = (root / "docs" / "engines.md").read_text(), root / "tests" / "engines" / "example_engine"
    (code,) = re.findall(r"```python\n(class .*?)```", page, re.DOTALL)
    (entry,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert code in (package / "kedge_example_engine.py").read_text()
    assert entry in (package / "pyproject.toml").read_text()
