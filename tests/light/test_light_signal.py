"""The light module has the numbers and functions of `signal`."""

from __future__ import annotations

import signal as model

import pytest

from kedge.light import signal
from kedge.runtime.process import signals


@pytest.mark.parametrize("each", list(model.Signals))
def test_every_signal_has_its_number_and_name(each: model.Signals) -> None:
    assert getattr(signal, each.name) == each
    assert signals.by_name(each.name.removeprefix("SIG")) == each
    assert signals.name_of(each) == each.name.removeprefix("SIG")


@pytest.mark.parametrize("name", ["", "NO", "_IGN", "_BLOCK", "TERM ", "SIGTERM", "RT"])
def test_other_names(name: str) -> None:
    with pytest.raises(ValueError, match="no signal"):
        signals.by_name(name)


def test_other_numbers() -> None:
    assert signals.name_of(40) == "40"


def test_aliases_have_their_number() -> None:
    assert signals.by_name("CLD") == model.SIGCHLD
