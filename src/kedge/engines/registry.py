"""The engines by name, loaded on demand: the built-in ones, then those of installed packages."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from kedge.engines.base import Engine, EngineOption
from kedge.engines.container.options import ACCEPTS as CONTAINER_OPTIONS
from kedge.engines.kubernetes.options import ACCEPTS as KUBERNETES_OPTIONS
from kedge.engines.kubernetes.options import CONTROLLERS, FRAMEWORK, FRAMEWORK_ACCOUNT, SERVICE_ACCOUNT
from kedge.engines.local.options import ACCEPTS as LOCAL_OPTIONS
from kedge.engines.slurm.options import ACCEPTS as SLURM_OPTIONS
from kedge.errors import InputError
from kedge.lazy_modules import ENGINES, load_place

__all__ = ["CONTROLLERS", "Engine", "EngineOption"]

_OPTIONS = {  # of the built-in engines
    "local": LOCAL_OPTIONS, "container": CONTAINER_OPTIONS, "slurm": SLURM_OPTIONS, "kubernetes": KUBERNETES_OPTIONS,
}  # fmt: skip
BUILT_IN_OPTIONS = tuple(dict.fromkeys(chain.from_iterable(_OPTIONS.values())))  # each once
_IN_CLUSTER = frozenset({"slurm", "kubernetes"})  # of the built-in engines
_WORDS = {"true": True, "yes": True, "false": False, "no": False}
_KINDS = {bool: "true or false", int: "a whole number", str: "a text", list: "a list of texts", dict: "folders by name"}


class UnknownEngine(InputError):
    """There is no engine of that name."""


def engine_names() -> list[str]:
    """The names of all engines."""
    return [*ENGINES, *(name for name in _installed().names() if name not in ENGINES)]


def load(name: str) -> type[Engine]:
    """The class of the engine of that name. UnknownEngine; CannotRun if it is from a package and cannot be used."""
    if name in ENGINES:
        found: type[Engine] = load_place(ENGINES[name])
        return found
    if installed := _installed().load(name):
        return installed  # type: ignore[no-any-return]
    import difflib  # slow to load, and needed only for an error

    near = difflib.get_close_matches(name, engine_names(), n=1)
    known = f"available: {', '.join(engine_names())}, and those of installed packages"
    advice = f"did you mean {near[0]!r}?" if near else known
    raise UnknownEngine(f"there is no engine {name!r}; {advice}")


def options_of(name: str) -> tuple[EngineOption, ...]:
    """The options of the engine of that name, without loading a built-in one. The errors of `load`."""
    return _OPTIONS[name] if name in _OPTIONS else load(name).accepts


def is_in_cluster(name: str) -> bool:
    """Whether the controller of the engine of that name runs in a cluster, without loading a built-in one. The errors
    of `load`."""
    return name in _IN_CLUSTER if name in ENGINES else load(name).in_cluster


def make(name: str, **options: Any) -> Engine:
    """The engine of that name with its own options; options that are None or empty are ignored. InputError for an
    option that it does not have, or of the wrong type; also the errors of `load`."""
    cls = load(name)
    given = {option: value for option, value in options.items() if value}
    for option, value in given.items():
        _check(name, _declared(name, cls, option), value)
    made: Engine = cls(**given) if name in ENGINES else _installed().make(name, cls, given)
    return made


def read_options(name: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """The values of options that are given as texts. InputError for an option that the engine does not have, or a value
    that its type does not allow."""
    cls = load(name)
    return {option: _read(name, _declared(name, cls, option), text) for option, text in texts.items()}


def _declared(name: str, cls: type[Engine], option: str) -> EngineOption:
    found = next((each for each in cls.accepts if each.name == option), None)
    if found is None:
        raise _unknown(name, cls, option)
    return found


def _unknown(name: str, cls: type[Engine], option: str) -> InputError:
    import difflib  # slow to load, and needed only for an error

    known = {each.name: each for each in cls.accepts if not each.site_only}
    near = difflib.get_close_matches(option, known, n=1)
    has = ", ".join(each.flag for each in known.values())
    advice = f"did you mean {known[near[0]].flag}?" if near else f"it has {has}" if has else "it has none"
    group = next((each.group for each in known.values()), "")
    return InputError(f"the {name} engine has no option {EngineOption(option, str, '', group=group).flag}; {advice}")


def _check(name: str, option: EngineOption, value: Any) -> None:
    kind: Any = option.kind
    if type(value) is not kind or (kind is int and option.least is not None and value < option.least):
        raise _wrong(name, option, value)
    texts: list[Any] = value if kind is list else [value]
    for text in texts:
        if option.choices and text not in option.choices:
            raise _wrong(name, option, text)
        if option.pattern and not (isinstance(text, str) and re.fullmatch(option.pattern, text)):
            raise InputError(f"{option.flag} of the {name} engine: {text!r} {option.mismatch}")


def _read(name: str, option: EngineOption, text: str) -> Any:
    value: Any = text
    if option.site_only:
        raise InputError(f"only the site's file may set {option.key} of the {name} engine")
    try:
        if option.kind is bool:
            value = _WORDS[text.lower()]
        elif option.kind is int:
            value = int(text)
    except (KeyError, ValueError):
        raise _wrong(name, option, text) from None
    _check(name, option, value)
    return value


def _wrong(name: str, option: EngineOption, value: Any) -> InputError:
    kind = f"one of {', '.join(option.choices)}" if option.choices else _KINDS[option.kind]
    least = "" if option.least is None else f" of at least {option.least}"
    return InputError(f"{option.flag} of the {name} engine must be {kind}{least}, not {value!r}")


def _installed() -> Any:
    """The engines of installed packages, loaded late: most runs need none of them."""
    return importlib.import_module("kedge.engines.installed")


def images_here(images: Mapping[str, str | None]) -> dict[str, str]:
    """The pins of those images that are on this machine, by name. `images` maps names to the digests that their
    registries report, if known."""
    found: dict[str, str] = importlib.import_module("kedge.engines.container.images.image_pins").here(images)
    return found


def kubernetes_setup(
    options: Mapping[str, Any], users: Sequence[str], groups: Sequence[str], *, queues: bool = False
) -> str:
    """What an administrator applies to a namespace so that jobs can run there, as YAML. `options` are some of the
    engine's. `queues`: jobs may wait in queues of Kueue. InputError."""
    setup = importlib.import_module("kedge.engines.kubernetes.setup")
    account = options.get("service_account") or SERVICE_ACCOUNT
    named = (options.get(key) for key in ("kubeconfig", "context"))
    queues, network = queues or bool(options.get("queue")), bool(options.get("network_policy"))
    is_framework = options.get("controller") == FRAMEWORK
    frameworks = (options.get("framework_account") or FRAMEWORK_ACCOUNT) if is_framework else None
    text: str = setup.manifests(
        options.get("namespace"), account, users, groups, *named, queues=queues, network=network, frameworks=frameworks,
        priorities=bool(options.get("framework_priorities")),
    )  # fmt: skip
    return text
