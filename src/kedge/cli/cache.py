"""kedge cache: the documents that prerequisites came from."""

from __future__ import annotations

import time

import click

from kedge import jobs
from kedge.cli.tables import console, table
from kedge.cli.words import seconds

_DAY = 86_400.0


@click.command()
@click.option("--prune", is_flag=True, help="Delete what has not been used for some time.")
@click.option("--days", type=click.FloatRange(min=0), default=0.0, help="For how many days; 0, the default, is all.")
def command(prune: bool, days: float) -> None:
    """Show what is kept of prerequisites; or prune it.

    These are the documents from elsewhere, by the SHA-256 that lock files name.
    """
    cache = jobs.cache()
    entries = cache.prune(days * _DAY) if prune else cache.entries()
    rows = table("sha256", "bytes", "last used", right=("bytes",))
    for entry in entries:
        rows.add_row(entry.sha256, str(entry.size), f"{seconds(max(0.0, time.time() - entry.used))} ago")
    if entries and not prune:
        console().print(rows)
    total = sum(entry.size for entry in entries)
    what = "document" if len(entries) == 1 else "documents"
    click.echo(f"{'deleted ' if prune else ''}{len(entries)} {what}, {total} bytes in {cache.folder}")
