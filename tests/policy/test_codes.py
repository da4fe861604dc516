from __future__ import annotations

import pytest

from kedge.policy.codes import CODES, Behaviour, behaviour, lookup

TRANSIENT = {
    *(-100, -101, -110, -111, -120, -1000, -1001, -1002, -1003, -1006, -1300, -1205),
    *(130, 131, 137, 143, 223, 250, 253),
}
PERMANENT = {
    *(-200, -210, -220, -230, -1004, -1005, -1100, -1200, -1202, -1203),
    *(132, 135, 136, 141, 220, 221, 222, 224, 225, 226, 249, 252, 254),
    *range(228, 236),
}
UNKNOWN = {0, -300, -310, -1201, -1204, 128, 134, 139, 255, 256, -8000}


def test_every_code_behaves_as_specified() -> None:
    expected = {
        **dict.fromkeys(TRANSIENT, Behaviour.TRANSIENT),
        **dict.fromkeys(PERMANENT, Behaviour.PERMANENT),
        **dict.fromkeys(UNKNOWN, Behaviour.UNKNOWN),
        251: Behaviour.TRANSIENT_CONFLICT,
    }
    assert {code: row.behaviour for code, row in CODES.items()} == expected


def test_phrases_are_unique() -> None:
    assert len({row.phrase for row in CODES.values()}) == len(CODES)


def test_lookup() -> None:
    assert lookup(137).phrase == "ContainerSigKillReceived"
    assert lookup(-1200).phrase == "UserContainerDockerOOMKilled"


@pytest.mark.parametrize("code", [1, 7, 138, 200, 227, 5000])
def test_an_undefined_positive_code_is_256(code: int) -> None:
    assert lookup(code) == CODES[256]
    assert behaviour(code) is Behaviour.UNKNOWN


@pytest.mark.parametrize("code", [-1, -999, -9999])
def test_an_undefined_negative_code_is_minus_8000(code: int) -> None:
    assert lookup(code) == CODES[-8000]
    assert behaviour(code) is Behaviour.UNKNOWN
