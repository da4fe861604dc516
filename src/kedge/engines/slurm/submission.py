"""Hands a run over to Slurm: builds the bundle, writes the batch script, calls sbatch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kedge.bundle import cache, layers, uses
from kedge.contract import timestamp
from kedge.engines.slurm import commands, job_table, refusals
from kedge.engines.slurm.commands import SlurmError, SlurmSite
from kedge.engines.slurm.options import SlurmOptions
from kedge.engines.slurm.script import render
from kedge.engines.slurm.script.render import SlurmPlace
from kedge.errors import CannotRun
from kedge.plan.model import Plan
from kedge.runs.atomic_files import write_atomic
from kedge.runs.folder import Run

_PACKS = "kedge packs its runtime for the nodes, which takes some seconds, once for each version of kedge"
_DRIVER = "driver"  # the layer with the controller and the agents


def chosen_layers(plan: Plan) -> tuple[str, ...]:
    """The layers of the bundle that a job on a cluster needs."""
    wanted = {layers.CORE, layers.NET, _DRIVER, *((layers.SSH,) if plan.has_ssh else ())}
    return tuple(layer for layer in layers.LAYERS if layer in wanted)


def submit(run: Run, plan: Plan, options: SlurmOptions, say: Callable[[str], object] = lambda text: None) -> None:
    """Submit a run whose orders are in its folder. CannotRun: Slurm refuses it, with its reason and what to change.
    `say` shows the user what takes long, and what sbatch prints besides the number of the job: warnings, and messages
    of the site's plugins.

    The job carries the run's id as its comment, so that it is found again if this process is killed before it has
    written the number of the job.
    """
    # Held until it is known to be in use: bundle.prune reads that.
    with cache.held(chosen_layers(plan), lambda: say(_PACKS)) as bundle:
        place = SlurmPlace(run.id, str(run.path), str(bundle))
        write_atomic(run.cluster.script, render.script(plan, options, place).encode(), followed=True)
        site = SlurmSite(options.commands, options.conf)
        job: dict[str, Any] = {
            "engine": "slurm", "commands": options.commands, "conf": site.conf or os.environ.get("SLURM_CONF"),
            "bundle": str(bundle), "submitted": timestamp(time.time_ns()), "time": time.time(), "job": None,
        }  # fmt: skip
        run.cluster.write(run.cluster.job, job)
        uses.note(bundle, run.path)
    _submit(run, plan, options, site, job, say)


def _submit(
    run: Run, plan: Plan, options: SlurmOptions, site: SlurmSite, job: dict[str, Any], say: Callable[[str], object]
) -> None:
    try:
        number = _sbatch(site, run, say)
    except SlurmError as error:
        _cancel(site, run, error)
        raise CannotRun(refusals.explained(str(error), plan, options)) from None
    except BaseException:
        _cancel(site, run)
        raise
    job_table.forget()
    run.cluster.write(run.cluster.job, job | {"job": number})


def _sbatch(site: SlurmSite, run: Run, say: Callable[[str], object]) -> str:
    """The number of the new job. With several clusters the name of its own follows, after a semicolon."""
    argv = ("sbatch", "--parsable", f"--comment={job_table.COMMENT}{run.id}", str(run.cluster.script))
    said = commands.run(site, *argv, patience_sec=commands.SUBMIT_SEC, say=say, environment=site.job_environment())
    number = said.strip().rpartition("\n")[2].partition(";")[0]
    if not number.isascii() or not number.isdigit():
        raise SlurmError(f"sbatch: it printed {said.strip()!r:.200} instead of the number of a job")
    return number


def _cancel(site: SlurmSite, run: Run, error: SlurmError | None = None) -> None:
    """Cancel a job that sbatch may have submitted although it did not say so."""
    if error and not isinstance(error, commands.SlurmSilent):
        return
    with suppress(SlurmError):
        job_table.forget()
        if found := job_table.list_run(site, run, None):
            commands.run(site, "scancel", found.id)
