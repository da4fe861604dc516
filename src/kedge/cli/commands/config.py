"""kedge config: show the settings, or check a file of settings."""

from __future__ import annotations

import json
import os
from typing import Any

import click
from click.shell_completion import CompletionItem

from kedge.cli.view.notes import print_notes
from kedge.cli.view.styled_text import Text
from kedge.cli.view.tables import Table, show
from kedge.cli.view.wording import home
from kedge.errors import KedgeError
from kedge.jobs.engine_choice import EngineChoice
from kedge.settings import files, listing, values
from kedge.settings.table import Setting
from kedge.settings.values import DEFAULT, SettingOrigin, SettingValue
from kedge.terminal_text import one_line

_FORMAT = 1  # version of the JSON output


def _complete_key(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    try:
        return [CompletionItem(key) for key, _ in listing.listed(values.load()) if key.startswith(incomplete)]
    except KedgeError:
        return []


@click.command()
@click.argument("key", required=False, shell_complete=_complete_key)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--check", "file", type=click.Path(), metavar="FILE", help="Check FILE as the site's file instead.")
def command(key: str | None, as_json: bool, file: str | None) -> None:
    """Show the settings of the site and the user, or check a file.

    Each value is shown with the place that sets it. KEY shows one setting, or those of a table, such as limits.job.
    """
    if file is not None:
        files.read(os.path.abspath(file), True)
        click.echo(f"{file}: no problems")
        return
    settings = values.load()
    EngineChoice().expected(settings)
    shown = listing.below(settings, key) if key else dict(listing.listed(settings))
    if as_json:
        click.echo(json.dumps(_document(shown), indent=2))
        return
    rows = Table("SETTING", "VALUE", "FROM")
    for k, value in shown.items():
        rows.add_row(one_line(k), one_line(_text(value.value)), _origin(value.origin))
    show(rows)
    if key in shown and (setting := listing.setting_of(settings, key)):
        sources = _sources(setting)
        show(f"\n{setting.help}")
        show(f"May be set by: {', '.join(sources)}{' (the last one counts)' if len(sources) > 1 else ''}")
    unknown = listing.unknown_variables(settings)
    print_notes(*(f"{name} matches no setting{hint}" for name, hint in unknown))
    if key is None:
        click.echo(f"files: {', '.join(_place(path) for path, _ in values.files(os.environ))}", err=True)


def _sources(setting: Setting) -> tuple[str, ...]:
    return ("the site's file", *(() if setting.site_only else ("the user's file",)), *setting.also_set_by)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _origin(origin: SettingOrigin) -> Text:
    return Text(home(one_line(str(origin))), "dim" if origin == DEFAULT else "")


def _place(path: str) -> str:
    return home(path) if os.path.lexists(path) else f"{home(path)} (does not exist)"


def _document(found: dict[str, SettingValue]) -> dict[str, Any]:
    places = [{"path": path, "site": site, "exists": os.path.lexists(path)} for path, site in values.files(os.environ)]
    return {"version": _FORMAT, "files": places, "settings": [_entry(key, value) for key, value in found.items()]}


def _entry(key: str, value: SettingValue) -> dict[str, Any]:
    origin = value.origin
    return {
        "key": key,
        "value": value.value,
        "file": origin.name if origin.line else None,
        "line": origin.line or None,
        "variable": None if origin.line or origin == DEFAULT else origin.name,
    }
