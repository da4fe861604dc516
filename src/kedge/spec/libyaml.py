"""PyYAML, loaded without the work for its own parser: libyaml reads in its place, and needs none of the patterns."""

from __future__ import annotations

from kedge.late_patterns import compiled_late

with compiled_late():
    import yaml

__all__ = ["yaml"]
