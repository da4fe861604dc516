"""Why a job of Slurm is pending, in words."""

from __future__ import annotations


def text(reason: str) -> str:
    """Slurm's term for why a job is pending, in words."""
    return reason
