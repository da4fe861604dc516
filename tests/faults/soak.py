"""Many rounds of random attacks, and a table of the invariants that held: `make soak` or `python -m tests.faults`."""

from __future__ import annotations

import multiprocessing
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path

import click

from kedge.cli.view.tables import Table, show

from . import fuzz as fuzzing
from .attacks import ATTACKS
from .rounds import Attack, Result, play


@click.command()
@click.option("--rounds", type=click.IntRange(min=1), help="Number of rounds; 100 without --seconds.")
@click.option("--seconds", type=click.FloatRange(min=1), help="Start new rounds for this time.")
@click.option("--seed", type=int, help="Repeat the round with this seed; with --rounds, start with it.")
@click.option(
    "--attack", "names", multiple=True, type=click.Choice(list(ATTACKS)), help="Run only this attack; repeatable."
)
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Rounds at the same time.")
@click.option("--fuzz", type=click.FloatRange(min=1), help="Then run the tests of tests/fuzz for this many seconds.")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Where failed rounds are kept; defaults to a new folder in /tmp."
)
def main(
    rounds: int | None,
    seconds: float | None,
    seed: int | None,
    names: tuple[str, ...],
    jobs: int,
    fuzz: float | None,
    folder: Path | None,
) -> None:
    """Attack real runs at random and check the invariants. Exit code 1 if any was violated."""
    folder = folder or Path(tempfile.mkdtemp(prefix="kedge-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    attacks = _possible([ATTACKS[name] for name in names or ATTACKS])
    if rounds is None and seconds is None:
        rounds = 1 if seed is not None else 100
    first = seed if seed is not None else random.SystemRandom().randrange(1_000_000_000)
    results = []
    began = time.monotonic()
    for result in _played(_planned(attacks, first, rounds, began + seconds if seconds else None), folder, jobs):
        results.append(result)
        click.echo(f"{len(results):5} {result}")
    results += fuzzing.play(fuzz, folder) if fuzz else []
    _print(results, time.monotonic() - began)
    if any(result.broke for result in results):
        raise SystemExit(1)
    shutil.rmtree(folder)


def _possible(attacks: Iterable[Attack]) -> list[Attack]:
    """The attacks that are possible on this machine."""
    found = []
    for attack in attacks:
        if why := attack.ready():
            click.echo(f"not tried: {attack.name}: {why}")
        else:
            found.append(attack)
    return found


def _planned(attacks: list[Attack], seed: int, rounds: int | None, end: float | None) -> Iterator[tuple[Attack, int]]:
    """The attack for a seed; with the same choice of attacks, the seed alone determines it."""
    count = 0
    while (rounds is None or count < rounds) and (end is None or time.monotonic() < end):
        yield random.Random(seed).choices(attacks, [attack.share for attack in attacks])[0], seed
        seed, count = seed + 1, count + 1


def _played(planned: Iterator[tuple[Attack, int]], folder: Path, jobs: int) -> Iterator[Result]:
    """The results, as they arrive."""
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        running: set[Future[Result]] = set()
        while True:
            while len(running) < jobs and (next_one := next(planned, None)):
                running.add(pool.submit(_play, next_one[0].name, next_one[1], folder))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


def _play(name: str, seed: int, folder: Path) -> Result:
    return play(ATTACKS[name], seed, folder)


def _print(results: list[Result], seconds: float) -> None:
    rows = Table("ATTACK", "TRIED", "HELD", "BROKE", right=("TRIED", "HELD", "BROKE"))
    tried, broke = Counter(result.attack for result in results), Counter(r.attack for r in results if r.broke)
    for name, count in tried.items():
        rows.add_row(name, str(count), str(count - broke[name]), str(broke[name]))
    rows.add_row("all", *map(str, (tried.total(), tried.total() - broke.total(), broke.total())))
    click.echo()
    show(rows)
    click.echo(f"in {seconds:.0f} s")
