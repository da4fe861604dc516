"""kedge cache: documents of prerequisites, downloaded data files, and bundles of the runtime."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from kedge.bundle import cache as bundles
from kedge.bundle import prune as bundle_cache
from kedge.bundle.prune import Kept
from kedge.cli.view.tables import Table, show
from kedge.cli.view.wording import seconds
from kedge.jobs import preparation, runs
from kedge.runs import data_cache, status
from kedge.runs.data_cache import DataCache
from kedge.runs.folder import Run
from kedge.states import FINAL, WITHOUT_END

_DAY = 86_400.0


@click.command()
@click.option("--prune", is_flag=True, help="Delete entries; with --days, only those not used recently.")
@click.option(
    "--days", type=click.FloatRange(min=0), default=0.0, help="Prune what was not used for this many days (default 0)."
)
def command(prune: bool, days: float) -> None:
    """Show or prune what kedge caches for later jobs.

    The cache holds fetched documents, by the SHA-256 that lock files name; downloaded data that has a SHA-256; and the
    bundles that containers use. A bundle in use is never deleted, and a task that is reading a data file is not
    disturbed.
    """
    cache = preparation.cache()
    found = cache.prune(days * _DAY) if prune else cache.entries()
    _show("document", [Kept(*entry) for entry in found], cache.folder, prune)
    data = DataCache(data_cache.folder())
    downloads = data.prune(days * _DAY) if prune else data.entries()
    _show("data file", [Kept(*entry) for entry in downloads], data.path, prune)
    if prune and (lost := _run_without_controller()):
        click.echo(
            f"deleted no bundles: {lost} has lost its controller and may still use one; end it with kedge stop {lost}"
        )
    else:
        kept = bundle_cache.prune(days * _DAY, _in_clusters, _has_ended) if prune else bundle_cache.entries()
        _show("bundle", kept, bundles.folder(), prune)


def _run_without_controller() -> str | None:
    """The id of a run without a controller: nothing then holds the lock of the bundle that its tasks may use."""
    return next((run.id for run, _, now in runs.all_runs() if now.state in WITHOUT_END), None)


def _in_clusters() -> set[Path]:
    """The bundles of runs in a cluster that have not ended."""
    found = (
        run.cluster.object(run.cluster.job).get("bundle") for run, _, now in runs.all_runs() if now.state not in FINAL
    )
    return {Path(bundle) for bundle in found if isinstance(bundle, str)}


def _has_ended(folder: Path) -> bool:
    """Whether a run has ended that may be among those of another XDG_STATE_HOME."""
    return status.read(Run(folder)).state in FINAL


def _show(what: str, entries: Sequence[Kept], folder: Path, prune: bool) -> None:
    rows = Table("bundle" if what == "bundle" else "sha256", "bytes", "last used", right=("bytes",))
    for entry in entries:
        rows.add_row(entry.name, str(entry.size), f"{seconds(max(0.0, time.time() - entry.used))} ago")
    if entries and not prune:
        show(rows)
    total = sum(entry.size for entry in entries)
    count = f"{len(entries)} {what}" + ("" if len(entries) == 1 else "s")
    click.echo(f"{'deleted ' if prune else ''}{count}, {total} bytes in {folder}")
