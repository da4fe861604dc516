"""The controller in a pod of its own: its engine does something before and after, otherwise it is as in any cluster."""

from __future__ import annotations

from kedge.controller.in_cluster import main as control
from kedge.lazy_modules import DRIVERS, load_place

OPTION = "--driver"
_ENGINE = "kubernetes"


def main(arguments: list[str]) -> int:
    """Run the job of the run folder that is the only argument. Returns the exit code."""
    return int(load_place(DRIVERS[_ENGINE])(arguments, control))
