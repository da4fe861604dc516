"""libyaml's parser, by the C module that comes with PyYAML, as events.

The rest of PyYAML, its own parser and the classes that build values, is not loaded: that takes two starts of an
interpreter. Only the C module asks for its parts while it is loaded; it gets stand-ins, whose errors are PyYAML's.
"""

from __future__ import annotations

import sys

from kedge.light.types import TYPE_CHECKING, Any, Iterator

if TYPE_CHECKING:
    import yaml as yaml

# The errors of PyYAML's modules that the C module looks up, and whether they have a place in the text.
_ERRORS = {
    "reader": ("ReaderError", False),
    "scanner": ("ScannerError", True),
    "parser": ("ParserError", True),
    "composer": ("ComposerError", True),
    "constructor": ("ConstructorError", True),
    "emitter": ("EmitterError", False),
    "serializer": ("SerializerError", False),
    "representer": ("RepresenterError", False),
}


def parse(text: str) -> Iterator[Any]:
    """The events of a text. yaml.YAMLError at the first mistake."""
    parser = _PARSER(text)
    try:
        while parser.check_event():
            yield parser.get_event()
    finally:
        parser.dispose()


def _light() -> Any:
    """A module with PyYAML's events and errors, and its C module. ImportError without libyaml."""
    specs = (finder.find_spec("yaml", None) for finder in sys.meta_path)
    spec = next((spec for spec in specs if spec), None)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("PyYAML is not installed")
    module: Any = type(sys)("yaml")
    module.__path__ = list(spec.submodule_search_locations)
    sys.modules["yaml"] = module  # what the modules of the package find; a later import loads the whole package
    try:
        import yaml.error
        import yaml.events
        import yaml.nodes
        import yaml.tokens

        for part in (yaml.error, yaml.events, yaml.nodes, yaml.tokens):
            vars(module).update((name, value) for name, value in vars(part).items() if name[0] != "_")
        for name, (error, has_place) in _ERRORS.items():
            base = module.MarkedYAMLError if has_place else module.YAMLError
            setattr(module, name, type(name, (), {error: type(error, (base,), {})}))
        import yaml._yaml

        module.CParser = yaml._yaml.CParser
    finally:
        del sys.modules["yaml"]
    return module


def _whole() -> Any:
    from kedge.late_patterns import compiled_late

    with compiled_late():
        import yaml
    return yaml


def _loaded() -> tuple[Any, Any]:
    """PyYAML or its stand-in, and the parser."""
    if "yaml" not in sys.modules:
        try:
            light = _light()
            return light, light.CParser
        except (ImportError, AttributeError):  # no libyaml, or another version of PyYAML
            pass
    whole = _whole()
    return whole, getattr(whole, "CSafeLoader", whole.SafeLoader)


if not TYPE_CHECKING:
    yaml, _PARSER = _loaded()
else:
    _PARSER: Any = None

__all__ = ["parse", "yaml"]
