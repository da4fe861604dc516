"""kedge bundle: build the runtime with its own Python."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from pathlib import Path

import click

from kedge.bundle import build, export, layers
from kedge.bundle.build import Bundle
from kedge.cli.view.notes import print_notes
from kedge.cli.view.tables import Table, show
from kedge.jobs.engine_choice import RUNTIME_IMAGE
from kedge.settings import values
from kedge.settings.table import REGISTRY

_PATH = click.Path(path_type=Path)


@click.command()
@click.option("-o", "--output", metavar="DIR", type=_PATH, help="Copy the bundle to this folder.")
@click.option("--tar", metavar="FILE", type=_PATH, help="Write a tar archive, compressed if FILE ends in .gz or .tgz.")
@click.option("--oci", metavar="DIR", type=_PATH, help="Write an image in the OCI image layout.")
@click.option(
    "--layers", "names", metavar="NAME,…", help=f"Layers to include: {', '.join(layers.LAYERS)}. Defaults to all."
)
@click.option("--json", "as_json", is_flag=True, help="Describe the bundle as JSON.")
def command(output: Path | None, tar: Path | None, oci: Path | None, names: str | None, as_json: bool) -> None:
    """Build the runtime with its own Python, for any image.

    The image needs no Python, C library or package. The bundle is built once and kept in the cache.
    """
    chosen = layers.available() if names is None else layers.choose(names.split(","))
    if oci and names is None:
        layers.choose((layers.INIT, layers.SHELL))  # what the runtime's image must have
    if to_do := build.to_do(chosen):
        print_notes(to_do)
    bundle = build.ensure(chosen)
    if output:
        export.folder(bundle.path, output)
    if tar:
        export.archive(bundle.path, tar)
    if oci:
        export.image(bundle.path, oci, RUNTIME_IMAGE)
    if as_json:
        click.echo(json.dumps(_description(bundle, output or bundle.path)))
    else:
        _show(bundle)
        for place in (output or bundle.path, tar, oci):
            if place:
                click.echo(place)
    if oci and (registry := values.load().get(REGISTRY).value):
        print_notes(f"to push the image: skopeo copy oci:{shlex.quote(str(oci))} docker://{registry}/{RUNTIME_IMAGE}")


def _show(bundle: Bundle) -> None:
    rows = Table("layer", "files", "MB", "what", right=("files", "MB"))
    for layer, (files, size) in _sizes(bundle).items():
        rows.add_row(layer, str(files), f"{size / 1e6:.1f}", layers.WORDS[layer])
    for layer in layers.LAYERS:
        if missing := layers.missing(layer):
            rows.add_row(layer, "", "", f"not available: needs {' and '.join(missing)}")
    show(rows)
    click.echo(f"\nPython {bundle.head['python']}, {bundle.machine}, sha256:{bundle.digest}")


def _sizes(bundle: Bundle) -> dict[str, tuple[int, int]]:
    """The number of files and bytes of each layer."""
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    for file in bundle.head["files"]:
        sizes[file["layer"]].append(file["size"])
    return {layer: (len(sizes[layer]), sum(sizes[layer])) for layer in bundle.head["layers"]}


def _description(bundle: Bundle, path: Path) -> dict[str, object]:
    sizes = {layer: {"files": files, "bytes": size} for layer, (files, size) in _sizes(bundle).items()}
    return {
        "path": str(path),
        "digest": f"sha256:{bundle.digest}",
        "python": bundle.head["python"],
        "machine": bundle.machine,
        "layers": sizes,
        "start": build.command(bundle, str(path)),
    }
