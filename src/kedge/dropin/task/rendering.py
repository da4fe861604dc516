"""Fills in the references of commands and of plugins' parameters: `<% $parameters.lr %>`. Secrets stay placeholders,
which the supervisor fills in when it writes a script."""

from __future__ import annotations

from kedge.contract import SecretRef, Text, join_text
from kedge.dropin.task.documents import InitDocument
from kedge.light.types import Any, Mapping, Sequence
from kedge.spec.message_text import show_path
from kedge.spec.reference_syntax import Reference, TagError, Unresolved, lookup, split

SECRETS = ("secrets",)


class UnknownReference(ValueError):
    """A reference has no value; the message names it."""


class TaskReferences:
    """The values that the references of one task role can name. `named` has the paths, in `job`, of the prerequisites
    behind `$script`, `$output` and `$data`."""

    def __init__(
        self, job: InitDocument | None, secrets: InitDocument, named: Mapping[str, tuple[str | int, ...]] | None = None
    ) -> None:
        self._job, self._secrets, self._named = job, secrets, dict(named or {})

    def text(self, text: str, roots: Sequence[str] | None = None) -> Text:
        """A text with its references filled in; with `roots`, only those. UnknownReference."""
        try:
            parts = split(text)
        except TagError as error:
            if roots is not None:
                return (text,)  # assembled by OpenPAI's REST server, which leaves what it cannot read
            raise UnknownReference(error.message) from None
        done: list[str | SecretRef] = []
        for part in parts:
            if isinstance(part, str):
                done.append(part)
            elif roots is not None and part.root not in roots:
                done.append(part.source)
            else:
                done.append(self._value(part))
        return join_text(done)

    def value(self, value: Any) -> Any:
        """A value of any shape with the references in all its strings filled in. A string with a secret becomes a
        Text. UnknownReference."""
        if isinstance(value, dict):
            return {key: self.value(below) for key, below in value.items()}
        if isinstance(value, list):
            return [self.value(below) for below in value]
        if not isinstance(value, str):
            return value
        text = self.text(value)
        return "".join(text) if all(isinstance(part, str) for part in text) else text  # type: ignore[arg-type]

    def _value(self, reference: Reference) -> str | SecretRef:
        if reference.root == "secrets":
            if isinstance(found := self._lookup(reference, self._secrets, ()), Unresolved):
                raise UnknownReference(f"{reference.source}: {found.message}{self._without_secrets()}")
            return SecretRef(show_path(reference.path), reference.source)
        path = ("parameters",) if reference.root == "parameters" else self._named.get(reference.root)
        found = self._lookup(reference, self._job, path)
        if isinstance(found, Unresolved):
            raise UnknownReference(f"{reference.source}: {found.message}")
        return found

    def _without_secrets(self) -> str:
        return "" if self._secrets.value else f"; {self._secrets.file} does not exist, or is empty"

    def _lookup(
        self, reference: Reference, document: InitDocument | None, path: tuple[str | int, ...] | None
    ) -> str | Unresolved:
        if document is None or path is None:
            return lookup(reference, None, {}, ())
        value = document.value if document.value is not None or path else {}
        for step in path:
            value = _below(value, step)
        return lookup(reference, {} if value is None else value, document.texts, path)  # type: ignore[arg-type]


def _below(value: Any, step: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    return value[step] if isinstance(value, list) and isinstance(step, int) else None
