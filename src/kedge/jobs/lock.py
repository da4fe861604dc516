"""Writes the lock file of a job."""

from __future__ import annotations

from dataclasses import replace

from kedge.jobs import pins
from kedge.jobs.preparation import prepare
from kedge.resolve import lock_file
from kedge.resolve.document_store import ALL
from kedge.resolve.model import Inputs
from kedge.resolve.sources import pinning


def lock_names(path: str, inputs: Inputs) -> tuple[str, lock_file.Lock]:
    """Write a job's lock file with the current content behind every name outside the job. Returns its path and content.
    A job from stdin has no lock file; the path is then empty."""
    prepared = prepare(path, replace(inputs, update_lock=(ALL,)), places_storages=False)
    state = prepared.locked
    renewed = state.new.images if state.old else pins.of_images(state.images)
    images = {image: renewed[image] for image in state.images}
    new = replace(state.new, git=pinning.commits(state.repositories), images=images)
    if state.path:
        lock_file.save(state.path, new)
    return state.path, new
