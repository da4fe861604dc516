"""kedge rerun: run the job of an earlier run again, from what that run has recorded."""

from __future__ import annotations

import click

from kedge.cli import new_run, options
from kedge.cli.engine_options import engine
from kedge.cli.job_options import forget, values
from kedge.jobs import rerun, runs
from kedge.jobs.engine_choice import EngineChoice
from kedge.resolve.model import Inputs


@click.command()
@options.job
@values
@click.option("--with-job-dir", is_flag=True, help="Begin with a copy of the old run's job folder ($KEDGE_JOB_DIR).")
@engine
@options.detach
@options.quiet
@options.as_json
def command(
    job: str, changes: Inputs, with_job_dir: bool, choice: EngineChoice, detach: bool, quiet: bool, as_json: bool
) -> int:
    """Run the job of an earlier run again, from its own copy.

    Uses the job file, code, rules, lock and options that the run has recorded; nothing of the original files is needed.
    Options given here change single values; the engine is that of the old run, unless --engine names another. Secrets
    are not stored: give them again with --secret. JOB is a run id, a unique prefix of one, or a job name for its newest
    run. Exit codes are those of kedge run.
    """
    run = runs.find(job)
    inputs, again = rerun.again(run, changes, with_job_dir), rerun.engine(run, choice)
    forget(inputs.taken_env)
    return new_run.run("", inputs, again, detach=detach, quiet=quiet, as_json=as_json)
