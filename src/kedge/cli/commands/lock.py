"""kedge lock: pin what every external name in a job file stands for now."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

from kedge.cli.job_options import job_file
from kedge.cli.view.notes import print_notes
from kedge.jobs.lock import lock_names
from kedge.resolve.lock_file import Pin
from kedge.resolve.model import Inputs


@click.command()
@job_file
def command(file: str, inputs: Inputs) -> None:
    """Pin the external inputs of a job in its lock file.

    Rewrites the lock file (job.lock for job.yaml) with the hashes of external prerequisites, the commits of
    repositories and the digests of images. Later runs reject what has changed; containers pull images by digest. For a
    job from stdin (-) the lock is printed.
    """
    path, lock = lock_names(file, inputs)
    counts = [
        _count(len(lock.items), "external prerequisite", "external prerequisites"),
        _count(len(lock.files), "file", "files"),
        _count(len(lock.git), "repository", "repositories"),
        _count(len(lock.images), "image", "images"),
    ]
    if not path:
        click.echo(json.dumps(lock.to_json(), indent=2))
    click.echo(f"{path or 'not written'}: {', '.join(counts)}", err=not path)
    for name in (name for name, pin in lock.images.items() if (pin.value or "").startswith("id:")):
        print_notes(f"the local image {name} is in no registry; other machines cannot pull it")
    for what, pins in (("repository", lock.git), ("image", lock.images)):
        _print_unlocked(what, pins)


def _print_unlocked(what: str, pins: Mapping[str, Pin]) -> None:
    for name, pin in pins.items():
        if pin.unlocked:
            print_notes(f"the {what} {name} is not locked: {pin.unlocked}")


def _count(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"
