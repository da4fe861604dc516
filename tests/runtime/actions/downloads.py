"""What is downloaded, and how tests of downloads look at its end."""

from __future__ import annotations

import hashlib

QUICK = {"tries": 4, "first_sec": 0.01, "cap_sec": 0.02}
DATA = bytes(range(256)) * 4096  # 1 MiB
SUM = hashlib.sha256(DATA).hexdigest()


def cause(attempt):
    return attempt.report["diagnosis"]["cause"]
