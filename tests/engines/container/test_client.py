"""How the engine's client reports errors."""

from __future__ import annotations

import pytest
import urllib3

from kedge.engines.container import client
from kedge.engines.container.engine_answers import EngineGone


def test_an_engine_whose_answer_breaks_off_is_gone() -> None:
    with pytest.raises(EngineGone, match=r"does not answer: .*Read timed out"), client._errors("unix:///engine"):
        raise urllib3.exceptions.ReadTimeoutError(None, None, "Read timed out.")  # type: ignore[arg-type]
