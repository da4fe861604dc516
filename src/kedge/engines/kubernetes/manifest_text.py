"""Objects as YAML, as kubectl reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml


def text(obj: Mapping[str, Any]) -> str:
    """One document, which begins with its separator."""
    return "---\n" + yaml.dump(dict(obj), Dumper=_ManifestDumper, sort_keys=False, width=120, allow_unicode=True)


class _ManifestDumper(yaml.SafeDumper):
    """Writes long texts as blocks, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_ManifestDumper.add_representer(str, _text)
