"""Builds a tree of nodes from YAML events: keys, anchors, aliases and merge keys, with limits on their cost."""

from __future__ import annotations

from kedge.errors import Problem
from kedge.light.types import Any, Iterable, NamedTuple
from kedge.masking import MASKED
from kedge.spec.libyaml import yaml
from kedge.spec.message_text import MAX_PROBLEMS, excerpt, quote, show_path
from kedge.spec.nodes import Node
from kedge.spec.scalars import plain, tagged
from kedge.spec.suggest import did_you_mean

MAX_DEPTH = 100  # levels; low enough that code which walks the values later may recurse
MAX_COPIES = 100_000  # values that aliases and merge keys add when expanded; 32 characters of text count as one more
_CORE = "tag:yaml.org,2002:"
_SCALAR_TAGS = frozenset(_CORE + kind for kind in ("str", "int", "float", "bool", "null"))


class Unreadable(Exception):
    """The document cannot be read any further. `offset` is the position in the text; None for the whole text."""

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


class _Open:
    """A mapping or list that has not ended yet."""

    def __init__(self, node: Node, is_list: bool, is_flow: bool) -> None:
        self.node, self.is_list, self.is_flow = node, is_list, is_flow
        self.key: Node | None = None
        self.merge = False
        self.merged: list[Node] = []

    def step(self) -> str | int:
        """The key or index of the next value."""
        return len(self.node.items) if self.is_list or self.key is None else self.key.text or ""


class Alias(NamedTuple):
    """An alias in the text and the node it refers to; `merged` if it is the value of a merge key or in its list."""

    start: int
    end: int
    node: Node
    merged: bool


class Composer:
    """Builds one document. `problems` collects errors that do not prevent reading on."""

    def __init__(self, text: str, file: str) -> None:
        self.problems: list[Problem] = []
        self.aliases: list[Alias] = []
        self._text = text
        self._file = file
        self._root: Node | None = None
        self._stack: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._copies = 0
        self._top_key: str | None = None  # the latest top-level key
        self._end = 0  # offset where the latest content ends; a block collection ends where its last item does

    def compose(self, events: Iterable[Any]) -> Node | None:
        """The root of the only document; None if there is none. Unreadable, yaml.YAMLError: it cannot be read."""
        for event in events:
            match event:
                case yaml.ScalarEvent():
                    self._scalar(event)
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    self._open(event)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    self._close(event)
                case yaml.AliasEvent():
                    self._alias(event)
                case yaml.DocumentStartEvent():
                    self._document(event)
        return self._root

    def inside_secrets(self) -> bool:
        """Whether the current position is inside the job's secrets, so that no message may show what is read."""
        open_keys = (part.key.text for part in self._stack if part.key)
        return self._top_key == "secrets" or "password" in open_keys

    def _shown_name(self, name: str) -> str:
        """A name for a message, masked inside the secrets, where it may be the beginning of a value."""
        return MASKED if self.inside_secrets() else quote(name)

    def _document(self, event: Any) -> None:
        offset = event.start_mark.index
        if self._root is not None:
            raise Unreadable("a second document starts here; a job file must hold only one", offset)
        if event.version is not None and event.version != (1, 2):
            raise Unreadable("job files are YAML 1.2; remove this directive or write '%YAML 1.2'", offset)

    def _scalar(self, event: Any) -> None:
        node = self._node(event)
        is_plain = event.implicit[0] and event.tag is None
        node.text = text = event.value
        node.end = self._end = node.start + len(self._text[node.start : event.end_mark.index].rstrip(" \t\r\n"))
        node.size = 1 + len(text) // 32
        if self._wants_key():
            self._key(node, is_plain)
            return
        node.value = self._value(node, event.tag, is_plain)
        self._add(node)

    def _value(self, node: Node, tag: str | None, is_plain: bool) -> Any:
        text = node.text or ""
        try:
            if tag in _SCALAR_TAGS:
                return tagged(text, tag.removeprefix(_CORE))
            self._check_tag(node, tag)
            return plain(text) if is_plain else text
        except ValueError:
            what = f"not a value of type !!{tag.removeprefix(_CORE)}" if tag else "too long for a number"
            self._report(node, f"this is {what}; if it is text, put it in quotes, without a tag")
            return text

    def _check_tag(self, node: Node, tag: str | None, *allowed: str) -> None:
        if tag not in (None, "!", *allowed):
            self._report(node, f"the tag {self._shown_name(str(tag))} is not supported; remove it")

    def _open(self, event: Any) -> None:
        if self._wants_key():
            hint = "; put a value that starts with '{' in quotes" if self._stack[-1].is_flow else ""
            raise Unreadable(f"a key must be a plain word, not a list or a mapping{hint}", event.start_mark.index)
        is_list = isinstance(event, yaml.SequenceStartEvent)
        node = self._node(event)
        node.items, node.keys = {}, {}
        self._check_depth(node.start, 1)
        self._check_tag(node, event.tag, _CORE + ("seq" if is_list else "map"))
        self._stack.append(_Open(node, is_list, bool(event.flow_style)))

    def _close(self, event: Any) -> None:
        done = self._stack.pop()
        if done.is_flow:
            self._end = event.end_mark.index
        node = done.node
        node.end = self._end
        for source in done.merged:
            self._merge(source, node)
        below = node.items.values()
        node.value = [n.value for n in below] if done.is_list else {key: n.value for key, n in node.items.items()}
        node.size = 1 + sum(n.size for n in below)
        node.depth = 1 + max((n.depth for n in below), default=0)
        self._add(node)

    def _alias(self, event: Any) -> None:
        start, name = event.start_mark.index, event.anchor
        self._end = event.end_mark.index
        node = self._anchors.get(name)
        if node is None:
            hint = "" if self.inside_secrets() else did_you_mean(name, self._anchors)
            raise Unreadable(f"no anchor is named {self._shown_name(name)}{hint}", start)
        if not node.size:
            raise Unreadable(f"the alias {quote(name)} is inside the value that it refers to", start)
        self._check_depth(start, node.depth)
        self._count_copies(node.size, start)
        self.aliases.append(Alias(start, self._end, node, any(part.merge for part in self._stack[-2:])))
        if self._wants_key():
            self._alias_key(node, start)
        else:
            self._add(node)

    def _alias_key(self, node: Node, start: int) -> None:
        if node.text is None:
            raise Unreadable("a key must be a plain word, not a list or a mapping", start)
        self._key(node, False)

    def _key(self, node: Node, is_plain: bool) -> None:
        mapping = self._stack[-1]
        mapping.key = node
        if len(self._stack) == 1:
            self._top_key = node.text
        mapping.merge = is_plain and node.text == "<<"
        if mapping.merge:
            return
        first = mapping.node.keys.setdefault(node.text or "", node)
        if is_plain and not node.text:
            self._report(node, "there is no key before this ':'")
        elif first is not node:
            self._report(node, f"duplicate key {quote(node.text or '')}; it is already in line {first.line + 1}")

    def _add(self, node: Node) -> None:
        if not self._stack:
            self._root = node
            return
        parent = self._stack[-1]
        if parent.merge and parent.key:
            self._merge_key(parent, parent.key, node)
        else:
            parent.node.items.setdefault(parent.step(), node)
        parent.key, parent.merge = None, False

    def _merge_key(self, parent: _Open, key: Node, node: Node) -> None:
        sources = list(node.items.values()) if isinstance(node.value, list) else [node]
        if not all(isinstance(source.value, dict) for source in sources):
            self._report(key, "'<<' takes a mapping or a list of mappings, usually an alias such as *base")
        elif parent.merged:
            self._report(key, "duplicate key '<<'; to merge several mappings, write <<: [*a, *b]")
        else:
            parent.merged.extend(sources)

    def _merge(self, source: Node, target: Node) -> None:
        for step, below in source.items.items():
            if step not in target.items:
                self._count_copies(below.size, target.start)
                target.items[step] = below
                target.keys[step] = source.keys[step]

    def _node(self, event: Any) -> Node:
        start = event.start_mark
        node = Node(start.line, start.column, start.index, start.index, event.anchor)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _wants_key(self) -> bool:
        return bool(self._stack) and not self._stack[-1].is_list and self._stack[-1].key is None

    def _check_depth(self, offset: int, more: int) -> None:
        if len(self._stack) + more > MAX_DEPTH:
            raise Unreadable(f"values are nested more than {MAX_DEPTH} levels deep here", offset)

    def _count_copies(self, size: int, offset: int) -> None:
        self._copies += size
        if self._copies > MAX_COPIES:
            raise Unreadable(f"the aliases of this file expand to more than {MAX_COPIES} values", offset)

    def _report(self, node: Node, message: str) -> None:
        if len(self.problems) >= MAX_PROBLEMS:
            raise Unreadable("too many problems; the rest of the file was not read", node.start)
        steps = tuple(part.step() for part in self._stack)
        shown = "" if self.inside_secrets() else excerpt(self._text, node.start)
        where = show_path(steps)
        self.problems.append(Problem(self._file, node.line + 1, node.column + 1, where, message, shown))
