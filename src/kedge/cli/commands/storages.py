"""kedge storages: list the storages that this user's jobs may name."""

from __future__ import annotations

import json
from typing import Any

import click

from kedge.cli.view.notes import print_notes
from kedge.cli.view.tables import Table, show
from kedge.cli.view.wording import home
from kedge.jobs.storages import Storages
from kedge.settings import values
from kedge.terminal_text import one_line

_FORMAT = 1  # version of the JSON output


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """List the storages that your jobs may name.

    Jobs name them in extras.storages. These are the ones of the site that you may use, and your own. {user} and {job}
    stand for your account and the name of a job.
    """
    storages = Storages(values.load(), {})
    found, others = _facts(storages)
    if as_json:
        click.echo(json.dumps({"version": _FORMAT, "storages": found}, indent=2))
        return
    if not found:
        click.echo("no storages; a job gets a folder of your own with --storage NAME=FOLDER")
    else:
        table = Table("STORAGE", "ACCESS", "DEFAULT", "PLACE", "FROM")
        for each in found:
            access, default = "read" if each["readOnly"] else "read, write", "yes" if each["default"] else "-"
            origin = home(one_line(each["from"]))
            table.add_row(each["name"], access, default, one_line(each["place"]), origin)
        show(table)
    if others:
        print_notes(f"{others} more {'is' if others == 1 else 'are'} for other users")


def _facts(storages: Storages) -> tuple[list[dict[str, Any]], int]:
    """Each storage that the user may use, and the number of all others."""
    names = storages.names(True)
    found = [
        {
            "name": known.name,
            "place": known.shown_place,
            "readOnly": read_only,
            "default": known.name in names.defaults,
            "ofSite": known.of_site,
            "from": known.origin,
        }
        for known, allowed, read_only in storages.known
        if allowed
    ]
    return found, len(names.forbidden)
