"""The options of the local engine."""

from __future__ import annotations

from kedge.engines.machine.options import ALLOW_FEWER_GPUS

ACCEPTS = (ALLOW_FEWER_GPUS,)
