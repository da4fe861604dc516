"""Options of every engine that gives its tasks the GPUs of this machine."""

from __future__ import annotations

from kedge.engines.base import EngineOption

ALLOW_FEWER_GPUS = EngineOption(
    "allow_fewer_gpus", bool, "Start even if there are fewer GPUs than the job requests, or none."
)
