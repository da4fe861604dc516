"""kedge lock: write down what every name outside of the job file stands for."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

from kedge import jobs
from kedge.cli import options
from kedge.resolve.lock import Pin
from kedge.resolve.model import Inputs


@click.command()
@options.job_file
def command(file: str, inputs: Inputs) -> None:
    """Pin what a job takes from elsewhere, in its lock file.

    The lock file (job.lock for job.yaml) is written anew: the content of prerequisites from elsewhere, the commits of
    repositories and the digests of images. Later runs refuse what has changed; in containers they pull by digest. For a
    job from stdin (-) it is printed.
    """
    path, lock = jobs.lock_names(file, inputs)
    counts = [
        _count(len(lock.items), "prerequisite from elsewhere", "prerequisites from elsewhere"),
        _count(len(lock.files), "file", "files"),
        _count(len(lock.git), "repository", "repositories"),
        _count(len(lock.images), "image", "images"),
    ]
    if not path:
        click.echo(json.dumps(lock.to_json(), indent=2))
    click.echo(f"{path or 'not written'}: {', '.join(counts)}", err=not path)
    for name in (name for name, pin in lock.images.items() if (pin.value or "").startswith("id:")):
        click.echo(f"note: no registry has the image {name} that is here: other machines cannot pull it", err=True)
    for what, pins in (("repository", lock.git), ("image", lock.images)):
        _say_unlocked(what, pins)


def _say_unlocked(what: str, pins: Mapping[str, Pin]) -> None:
    for name, pin in pins.items():
        if pin.unlocked:
            click.echo(f"note: the {what} {name} is not locked: {pin.unlocked}", err=True)


def _count(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"
