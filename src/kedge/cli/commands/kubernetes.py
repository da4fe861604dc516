"""kedge kubernetes: what an administrator of a Kubernetes namespace needs."""

from __future__ import annotations

import click

from kedge.engines import registry
from kedge.engines.registry import CONTROLLERS
from kedge.jobs.engine_choice import EngineChoice

_ENGINE = "kubernetes"


@click.group()
def command() -> None:
    """Prepare namespaces of a Kubernetes cluster for jobs."""


@command.command()
@click.option("--namespace", metavar="NAME", help="The namespace, instead of the one of the settings or the context.")
@click.option("--user", "users", multiple=True, metavar="NAME", help="A user who may submit jobs there.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group whose members may.")
@click.option("--queues", is_flag=True, help="Add what jobs in queues of Kueue need.")
@click.option("--controller", type=click.Choice(CONTROLLERS), help="Add what jobs of FrameworkController need.")
def setup(
    namespace: str | None, users: tuple[str, ...], groups: tuple[str, ...], queues: bool, controller: str | None
) -> None:
    """Print what lets jobs run in a namespace, as YAML for `kubectl apply -f -`.

    That is the service account of the drivers of jobs, with its Role and RoleBinding. With --user or --group also the
    Role of those who submit jobs. Nothing is asked of the cluster, and nothing changed.
    """
    known = EngineChoice().settings_of(_ENGINE)
    if namespace:
        known["namespace"] = namespace
    if controller:
        known["controller"] = controller
    click.echo(registry.kubernetes_setup(known, users, groups, queues=queues), nl=False)
