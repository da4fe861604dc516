"""Amounts as Kubernetes writes them."""

from __future__ import annotations

import math


def cpu(cores: float) -> str:
    """Cores: `2`, or `1500m`. Rounded up to a thousandth, the smallest unit that Kubernetes knows."""
    thousandths = math.ceil(round(cores * 1000, 6))
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def memory(mib: int) -> str:
    """Memory of so many MiB."""
    return f"{mib}Mi"
