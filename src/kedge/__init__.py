"""kedge runs deep-learning jobs: one file, the same meaning everywhere."""

from __future__ import annotations

__version__ = "0.1.0"
