"""The functions and numbers of `signal`, without the enumerations that it makes of them. The numbers are plain."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from signal import *  # noqa: F403
else:
    from _signal import *  # noqa: F403
