"""kedge cache: the documents that prerequisites came from, downloaded data, and the bundles of the runtime."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from kedge import jobs
from kedge.bundle import cache as bundles
from kedge.bundle import prune as bundle_cache
from kedge.bundle.prune import Kept
from kedge.cli.view.tables import console, table
from kedge.cli.view.wording import seconds
from kedge.runs import data_cache, status
from kedge.runs.data_cache import DataCache

_DAY = 86_400.0


@click.command()
@click.option("--prune", is_flag=True, help="Delete what has not been used for some time.")
@click.option("--days", type=click.FloatRange(min=0), default=0.0, help="For how many days; 0, the default, is all.")
def command(prune: bool, days: float) -> None:
    """Show or prune what kedge keeps for later jobs.

    These are the documents from elsewhere, by the SHA-256 that lock files name; downloaded data that have a SHA-256;
    and the bundles that containers get. A bundle that a job uses is never deleted, and a task that is reading a data
    file is not disturbed.
    """
    cache = jobs.cache()
    found = cache.prune(days * _DAY) if prune else cache.entries()
    _show("document", [Kept(*entry) for entry in found], cache.folder, prune)
    data = DataCache(data_cache.folder())
    downloads = data.prune(days * _DAY) if prune else data.entries()
    _show("data file", [Kept(*entry) for entry in downloads], data.path, prune)
    if prune and (lost := _lost()):
        click.echo(
            f"deleted no bundle: {lost} has lost its controller and may use one (kedge stop or rm {lost} ends it)"
        )
    else:
        kept = bundle_cache.prune(days * _DAY) if prune else bundle_cache.entries()
        _show("bundle", kept, bundles.folder(), prune)


def _lost() -> str | None:
    """A run without a controller, which would hold the lock of its bundle."""
    return next((run.id for run, _, now in jobs.all_runs() if now.state in status.WITHOUT_END), None)


def _show(what: str, entries: Sequence[Kept], folder: Path, prune: bool) -> None:
    rows = table("bundle" if what == "bundle" else "sha256", "bytes", "last used", right=("bytes",))
    for entry in entries:
        rows.add_row(entry.name, str(entry.size), f"{seconds(max(0.0, time.time() - entry.used))} ago")
    if entries and not prune:
        console().print(rows)
    total = sum(entry.size for entry in entries)
    count = f"{len(entries)} {what}" + ("" if len(entries) == 1 else "s")
    click.echo(f"{'deleted ' if prune else ''}{count}, {total} bytes in {folder}")
