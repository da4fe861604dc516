"""What the engine's client makes of errors."""

from __future__ import annotations

import pytest
import urllib3

from kedge.engines.container import client
from kedge.engines.container.client import EngineGone


def test_an_answer_that_stops_in_the_middle_is_an_engine_that_does_not_answer() -> None:
    with pytest.raises(EngineGone, match=r"does not answer: .*Read timed out"), client._errors("unix:///engine"):
        raise urllib3.exceptions.ReadTimeoutError(None, None, "Read timed out.")  # type: ignore[arg-type]
