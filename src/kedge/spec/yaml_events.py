"""The events of a YAML text: libyaml reads it, with the characters of YAML 1.2."""

from __future__ import annotations

from kedge.late_patterns import late_pattern
from kedge.light.types import Iterator
from kedge.spec.compose import Unreadable
from kedge.spec.libyaml import parse, yaml
from kedge.spec.yaml_escapes import guard

_UNPRINTABLE = late_pattern("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def events(text: str) -> Iterator[yaml.Event]:
    """What libyaml reads in `text`. yaml.YAMLError; Unreadable for a character that YAML does not have."""
    _check_characters(text)
    guarded = guard(text)
    for event in parse(guarded.text):
        if guarded.back and isinstance(event, yaml.ScalarEvent):
            event.value = event.value.translate(guarded.back)
        yield event


def _check_characters(text: str) -> None:
    if text.replace("\n", "").isprintable():
        return  # without compiling the pattern, which takes longer than reading most files
    if found := _UNPRINTABLE.search(text):
        raise Unreadable(f"the character U+{ord(found[0]):04X} is not allowed in YAML", found.start())
