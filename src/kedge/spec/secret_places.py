"""Finds the secrets in a job file, including values that reach them through aliases and merge keys."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from kedge.late_patterns import late_pattern
from kedge.masking import MASKED, SHORTEST, SHORTEST_LINE
from kedge.spec.compose import Alias
from kedge.spec.hidden_lines import Hidden, hidden, sections, without_passwords
from kedge.spec.nodes import Node
from kedge.spec.references import CLOSE, OPEN

_REFERENCE = late_pattern(rf"{re.escape(OPEN)}.*?{re.escape(CLOSE)}", re.DOTALL)


def below_secrets(root: Node, aliases: Sequence[Alias]) -> dict[int, Node]:
    """All nodes, by identity, at and below the top-level key `secrets` and the `password` of images, including the
    targets of aliases in there, even those that are defined elsewhere or overridden."""
    found: dict[int, Node] = {}
    waiting = list(_places(root))
    while waiting:
        node = waiting.pop()
        if id(node) in found:
            continue
        found[id(node)] = node
        waiting += node.items.values()
        if node.text is None:
            first, after = (bisect_left(aliases, at, key=lambda alias: alias.start) for at in (node.start, node.end))
            waiting += (alias.node for alias in aliases[first:after])
    return found


def hidden_in(root: Node, aliases: Sequence[Alias], text: str) -> Hidden:
    """Everything that messages about the file must not show. Text after `secrets:` counts too, because wrong
    indentation may have moved secrets out of their section."""
    secret = below_secrets(root, aliases).values()
    shown = [node for node in secret if node.text != MASKED]
    return hidden(
        [*((node.start, node.end) for node in shown), *sections(text)], (node.text for node in shown if node.text)
    )


def long_texts(values: Iterable[str]) -> tuple[str, ...]:
    """The texts to search for elsewhere, the longest first: values too long to occur by chance, their long lines, and
    both forms as escaped in double quotes."""
    lines = {
        line.strip()
        for value in values
        for number, line in enumerate([value, *value.splitlines()])
        if len(line.strip().encode(errors="surrogateescape")) >= (SHORTEST_LINE if number else SHORTEST)
    }
    lines |= {json.dumps(line, ensure_ascii=False)[1:-1] for line in lines}
    return tuple(sorted(lines - {MASKED}, key=lambda line: (-len(line), line)))


def without(text: str, texts: Iterable[str]) -> str:
    """The text with all `texts` and the passwords in addresses masked."""
    for secret in texts:
        text = text.replace(secret, MASKED)
    return without_passwords(text)


def is_literal(text: str) -> bool:
    """Whether a text has anything besides references."""
    return bool(_REFERENCE.sub("", text).strip())


def _places(root: Node) -> Iterator[Node]:
    yield from (node for key, node in root.items.items() if str(key).lower().startswith("secret"))  # or mistyped
    extras = root.items.get("extras")
    for holder, key in (root, "prerequisites"), (extras, "reference_prerequisites"):
        items = holder.items.get(key) if holder else None
        for item in items.items.values() if items else ():
            auth = item.items.get("auth")
            password = auth.items.get("password") if auth else None
            if password and (password.text is None or is_literal(password.text)):
                yield password
