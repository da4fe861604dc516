"""The positions of a document's values by their paths, and changes of its tree of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kedge.spec.model import JobFileSource, Mark, Path
from kedge.spec.nodes import Node, below, with_items


def mark_of(node: Node) -> Mark:
    """The node's position as a Mark of the model, counted from 1."""
    return Mark(node.line + 1, node.column + 1, node.text, node.start, node.end)


class Marks(Mapping[Path, Mark]):
    """Marks of all values below `root` by path. They are looked up in the tree, so aliases cost no copies."""

    def __init__(self, root: Node) -> None:
        self._root = root

    def __getitem__(self, path: Path) -> Mark:
        return mark_of(self._node(path))

    def __iter__(self) -> Iterator[Path]:
        yield ()
        waiting: list[tuple[Path, Node]] = [((), self._root)]
        while waiting:
            path, node = waiting.pop()
            for step, inner in node.items.items():
                yield (*path, step)
                waiting.append(((*path, step), inner))

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
        return mark_of(self._node(path[:-1]).keys[path[-1]])

    def __iter__(self) -> Iterator[Path]:
        return (path for path in super().__iter__() if path and path[-1] in self._node(path[:-1]).keys)


def node_at(source: JobFileSource, path: Path) -> Node:
    """The node of a file's value at `path`. KeyError: there is none."""
    return below(_root(source), path)


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
