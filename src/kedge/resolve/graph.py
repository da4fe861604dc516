"""What a role needs, and what that needs: every prerequisite once, dependencies first."""

from __future__ import annotations

from kedge.errors import InputError
from kedge.resolve.items import Item, of_job
from kedge.spec.model import Job, Path, Prerequisite


def ordered(job: Job, names: tuple[str, ...]) -> list[Item]:
    """The named items and all that they require, dependencies first, each once. InputError for a cycle."""
    found: dict[Path, Item] = {}

    def visit(name: str, above: tuple[str, ...]) -> None:
        item = _named(job, name)
        if name in above:
            cycle = " -> ".join((*above[above.index(name) :], name))
            raise InputError(job.source.problem((*item.path, "require"), f"Prerequisite cycle: {cycle}"))
        if item.path not in found:
            for required in item.require:
                visit(required if isinstance(required, str) else required["name"], (*above, name))
            found[item.path] = of_job(item, job.source)

    for name in names:
        visit(name, ())
    return list(found.values())


def _named(job: Job, name: str) -> Prerequisite:
    """Of items of the same name in different types, the one that does something."""
    items = [item for item in job.prerequisites if item.name == name]
    return next((item for item in items if item.plugin or "callbacks" in item.data), items[0])
