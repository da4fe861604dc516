"""The values of a YAML document with their positions: a tree in which aliases share nodes."""

from __future__ import annotations

from kedge.light.types import TYPE_CHECKING, Any, Mapping

if TYPE_CHECKING:
    from kedge.spec.model import Path  # which loads what reading YAML does not need

_NO_ITEMS: dict[str | int, Node] = {}  # shared by all scalars, because most nodes are scalars


class Node:
    """One value. Lines and columns count from 0; `start` and `end` are offsets in the text.

    `items` holds the values below it by key or index, `keys` the key nodes of a mapping. `size` is the number of values
    with all aliases expanded (long text counts more), and 0 until the node is complete; `depth` counts the levels of
    nesting.
    """

    __slots__ = ("anchor", "column", "depth", "end", "items", "keys", "line", "size", "start", "text", "value")

    def __init__(
        self, line: int, column: int, start: int, end: int, anchor: str | None = None, text: str | None = None
    ) -> None:
        self.line, self.column, self.start, self.end = line, column, start, end
        self.anchor, self.text = anchor, text
        self.value: Any = None
        self.size = self.depth = 0
        self.items: dict[str | int, Node] = _NO_ITEMS
        self.keys: dict[str | int, Node] = _NO_ITEMS

    def replaced(self, **changes: Any) -> Node:
        """A copy with other values for some attributes."""
        copy = Node(self.line, self.column, self.start, self.end)
        for name in Node.__slots__:
            setattr(copy, name, changes.get(name, getattr(self, name)))
        return copy


def below(node: Node, path: Path) -> Node:
    """The node at `path` below `node`. KeyError: there is none."""
    for step in path:
        node = node.items[step]
    return node


def with_items(node: Node, items: Mapping[str | int, Node]) -> Node:
    """A copy of a mapping or list with these values below it."""
    values = {step: below.value for step, below in items.items()}
    value: Any = list(values.values()) if isinstance(node.value, list) else values
    return node.replaced(items=dict(items), value=value)
