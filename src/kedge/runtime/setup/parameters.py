"""The parameters of an action, with the job's secrets filled in."""

from __future__ import annotations

from kedge.contract import Action, SecretRef, render_text, text_from_json
from kedge.light.types import Any, Iterator, Mapping


def rendered(
    action: Action, secrets: Mapping[str, str], pai: str, tasks: int, site: str | None = None
) -> dict[str, Any]:
    """What the action's process reads: `kind`, `parameters`, `pai` (TaskSpec.pai), `tasks` (the number of tasks in the
    job), `site` (the folder of installed packages, if there is one), and `secrets` (the secret values among the
    parameters, which it must never print)."""
    keys = {reference.key for reference in references(action)}
    return {
        "kind": action.kind,
        "parameters": _render(action.parameters, secrets),
        "pai": pai,
        "tasks": tasks,
        "site": site,
        "secrets": [secrets[key] for key in sorted(keys)],
    }


def references(action: Action) -> Iterator[SecretRef]:
    """Every reference to a secret in the parameters."""
    yield from _references(action.parameters)


def _is_text(value: Any) -> bool:
    """Whether the value is {"text": [...]}, which stands for a string with secrets in it."""
    return isinstance(value, Mapping) and value.keys() == {"text"} and isinstance(value["text"], list | tuple)


def _references(value: Any) -> Iterator[SecretRef]:
    if _is_text(value):
        yield from (part for part in text_from_json(value["text"]) if isinstance(part, SecretRef))
    elif isinstance(value, Mapping):
        for below in value.values():
            yield from _references(below)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _references(below)


def _render(value: Any, secrets: Mapping[str, str]) -> Any:
    if _is_text(value):
        return render_text(text_from_json(value["text"]), secrets)
    if isinstance(value, Mapping):
        return {key: _render(below, secrets) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [_render(below, secrets) for below in value]
    return value
