"""Durations as users write them."""

from __future__ import annotations

import pytest

from kedge.spec.schema import schema
from kedge.spec.units import DURATION, NOT_A_DURATION, seconds


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (90, 90.0),
        (0.5, 0.5),
        ("90", 90.0),
        ("90s", 90.0),
        ("0.5s", 0.5),
        ("30m", 1800.0),
        ("1.5h", 5400.0),
        ("1h30m", 5400.0),
        ("1d", 86400.0),
        ("1d2h3m4.5s", 93784.5),
        ("1m30", 90.0),
    ],
)
def test_a_duration_is_seconds_or_has_units(written: str | float, wanted: float) -> None:
    assert seconds(written) == wanted


@pytest.mark.parametrize(
    ("written", "guess"),
    [
        ("30 minutes", "30m"),
        ("2H", "2h"),
        ("1 hour 30 min", "1h30m"),
        ("01:30:00", "1h30m"),
        ("30m1h", None),
        ("1h1h", None),
        ("", None),
        ("m", None),
        ("-5m", None),
        ("1e3", None),
        (".5h", None),
        ("5m\n", "5m"),
        ("5w", None),
        ("soon", None),
        ("00:00:00", None),
        ("١m", None),
    ],
)
def test_the_error_about_another_text_names_what_was_probably_meant(written: str, guess: str | None) -> None:
    with pytest.raises(ValueError, match=NOT_A_DURATION) as caught:
        seconds(written)
    assert str(caught.value).partition("did you mean ")[2] == (f"{guess!r}?" if guess else "")


def test_editors_check_durations_as_kedge_does() -> None:
    assert schema()["$defs"]["duration"]["pattern"] == DURATION
