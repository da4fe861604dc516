"""The values of a YAML document with their positions: a tree in which aliases share nodes, and marks by path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from kedge.quick_dataclasses import dataclass
from kedge.spec.model import JobFileSource, Mark, Path

_NO_ITEMS: dict[str | int, Node] = {}  # shared by all scalars, because most nodes are scalars


@dataclass(slots=True, eq=False)
class Node:
    """One value. Lines and columns count from 0; `start` and `end` are offsets in the text.

    `items` holds the values below it by key or index, `keys` the key nodes of a mapping. `size` is the number of values
    with all aliases expanded (long text counts more), and 0 until the node is complete; `depth` counts the levels of
    nesting.
    """

    line: int
    column: int
    start: int
    end: int
    anchor: str | None = None
    text: str | None = None
    value: Any = None
    size: int = 0
    depth: int = 0
    items: dict[str | int, Node] = field(default_factory=lambda: _NO_ITEMS)
    keys: dict[str | int, Node] = field(default_factory=lambda: _NO_ITEMS)

    def mark(self) -> Mark:
        """The node's position as a Mark of the model, counted from 1."""
        return Mark(self.line + 1, self.column + 1, self.text, self.start, self.end)


class Marks(Mapping[Path, Mark]):
    """Marks of all values below `root` by path. They are looked up in the tree, so aliases cost no copies."""

    def __init__(self, root: Node) -> None:
        self._root = root

    def __getitem__(self, path: Path) -> Mark:
        return self._node(path).mark()

    def __iter__(self) -> Iterator[Path]:
        yield ()
        waiting: list[tuple[Path, Node]] = [((), self._root)]
        while waiting:
            path, node = waiting.pop()
            for step, below in node.items.items():
                yield (*path, step)
                waiting.append(((*path, step), below))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _node(self, path: Path) -> Node:
        return below(self._root, path)

    @property
    def root(self) -> Node:
        """The tree itself."""
        return self._root


class KeyMarks(Marks):
    """Marks of all mapping keys below `root` by path."""

    def __getitem__(self, path: Path) -> Mark:
        if not path:
            raise KeyError(path)
        return self._node(path[:-1]).keys[path[-1]].mark()

    def __iter__(self) -> Iterator[Path]:
        return (path for path in super().__iter__() if path and path[-1] in self._node(path[:-1]).keys)


def below(node: Node, path: Path) -> Node:
    """The node at `path` below `node`. KeyError: there is none."""
    for step in path:
        node = node.items[step]
    return node


def node_at(source: JobFileSource, path: Path) -> Node:
    """The node of a file's value at `path`. KeyError: there is none."""
    return below(_root(source), path)


def with_items(node: Node, items: Mapping[str | int, Node]) -> Node:
    """A copy of a mapping or list with these values below it."""
    values = {step: below.value for step, below in items.items()}
    value: Any = list(values.values()) if isinstance(node.value, list) else values
    return replace(node, items=dict(items), value=value)


def with_node(source: JobFileSource, path: Path, node: Node) -> JobFileSource:
    """The file with the value at `path` replaced."""
    root = _put(_root(source), path, node)
    return replace(source, marks=Marks(root), key_marks=KeyMarks(root))


def _put(node: Node, path: Path, new: Node) -> Node:
    if not path:
        return new
    return with_items(node, {**node.items, path[0]: _put(node.items[path[0]], path[1:], new)})


def _root(source: JobFileSource) -> Node:
    assert isinstance(source.marks, Marks), source.file
    return source.marks.root
