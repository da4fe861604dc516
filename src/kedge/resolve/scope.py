"""Renders references with the values behind `$parameters`, `$secrets`, `$script`, `$output` and `$data`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kedge.contract import SecretRef, Text, join_text
from kedge.errors import Problem
from kedge.resolve.items import Item
from kedge.resolve.model import Inputs
from kedge.spec import references
from kedge.spec.message_text import show_path
from kedge.spec.model import Job, JobFileSource, Path
from kedge.spec.references import Reference, Unresolved
from kedge.spec.suggest import did_you_mean

GIVEN = ("parameters", "secrets")  # the roots whose values a submitter can give


class References:
    """Renders the references of a whole job, and collects the problems with them in `problems`.

    `secret_texts` has the values of all referenced secrets by the key of their SecretRef; `used` has the root and first
    name of every reference.
    """

    def __init__(self, job: Job, inputs: Inputs) -> None:
        self._job = job
        self._given: dict[str, Mapping[str, str]] = {"parameters": inputs.parameters, "secrets": inputs.secrets}
        self._unused = {(root, name) for root, values in self._given.items() for name in values}
        self._recorded = inputs.record.secrets if inputs.record else ()
        self.problems: list[Problem] = []
        self.secret_texts: dict[str, str] = {}
        self.used: set[tuple[str, str]] = set()

    def render(
        self,
        text: str,
        path: Path,
        source: JobFileSource | None = None,
        *,
        items: Mapping[str, Item | None],
        roots: Iterable[str],
    ) -> Text:
        """The text at `path` of `source` (default: the job file) with every reference under `roots` replaced; secrets
        are replaced with SecretRefs.

        `items` are the prerequisites behind `$script`, `$output` and `$data` in this text.
        """
        parts: list[str | SecretRef] = []
        seen: Counter[str] = Counter()
        for part in references.split(text):
            if isinstance(part, str) or part.root not in roots:
                parts.append(part if isinstance(part, str) else part.source)
                continue
            self.used.add((part.root, str(part.path[0]) if part.path else ""))
            value = self._value(part, items)
            if isinstance(value, Unresolved):
                self._unresolved(part, value, path, source or self._job.source, seen[part.source])
                parts.append(part.source)
            elif part.root == "secrets":
                parts.append(self._secret(part, value))
            else:
                parts.append(value)
            seen[part.source] += 1
        return join_text(parts)

    def _value(self, reference: Reference, items: Mapping[str, Item | None]) -> str | Unresolved:
        given = self._given.get(reference.root, {})
        if reference.root == "secrets" and (key := show_path(reference.path)) in given:
            self._unused.discard((reference.root, key))
            return given[key]
        if reference.path and reference.path[0] in given:
            name = str(reference.path[0])
            self._unused.discard((reference.root, name))
            if len(reference.path) > 1:
                return Unresolved(f"${reference.root}.{name} was given on the command line as a string, not a mapping")
            return given[name]
        if reference.root in GIVEN:
            values = self._job.parameters if reference.root == "parameters" else self._job.secrets
            return references.lookup(reference, values, self._job.source.marks, (reference.root,))
        item = items.get(reference.root)
        if item is None:
            return references.lookup(reference, None, {}, ())
        return references.lookup(reference, item.data, item.source.marks, item.path)

    def _secret(self, reference: Reference, value: str) -> SecretRef:
        key = show_path(reference.path)
        self.secret_texts[key] = value
        return SecretRef(key, reference.source)

    def _unresolved(
        self, reference: Reference, why: Unresolved, path: Path, source: JobFileSource, occurrence: int
    ) -> None:
        if self._job.kedge.keep_unknown_references:
            return
        mark = references.locate(source, path, reference.source, occurrence)
        self.problems.append(source.problem(path, why.message, mark=mark))

    def unused(self) -> list[str]:
        """A message for each name on the command line that the job neither defines nor uses."""
        known = {"parameters": self._job.parameters, "secrets": self._job.secrets}
        messages = []
        for root, name in sorted(self._unused):
            names = [str(key) for key in known[root]] + [*self._recorded] * (root == "secrets")
            if name not in names:
                what = f"no {root.removesuffix('s')} is named {name!r}{did_you_mean(name, names)}"
                messages.append(f"{self._job.source.file}: {what}")
        return messages
