"""From the exit codes of steps to those of the container: OpenPAI's table."""

from __future__ import annotations

import pytest

from kedge.contract import SIGNAL_CODES
from kedge.dropin import exit_codes
from kedge.dropin.exit_codes import ErrorMapping, container_code

OTHERS = sorted(set(range(1, 256)) - SIGNAL_CODES)


@pytest.mark.parametrize(
    ("step", "mapped"),
    [
        ("FRAMEWORK_BARRIER", {200: 250, 201: 251, 210: 252}),
        ("FRAMEWORK_RETRIEVER", {200: 250, 201: 251, 210: 252}),
        ("PORT_CONFLICT_CHECKER", {10: 253}),
        ("DOCKER_IMAGE_CHECKER", dict.fromkeys(OTHERS, 254)),
        ("ERROR_SPEC", {}),
        ("ENV_GENERATOR", {}),
        ("PLUGIN_INITIALIZER", {}),
        ("RENDER_USER_COMMAND", {}),
        ("a program of a site", {}),
    ],
)
def test_every_code_of_every_step(step: str, mapped: dict[int, int]) -> None:
    assert {code: container_code(step, code) for code in OTHERS} == dict.fromkeys(OTHERS, 1) | mapped
    assert {code: container_code(step, code) for code in SIGNAL_CODES} == {code: code for code in SIGNAL_CODES}


def test_a_row_of_the_specification_comes_first() -> None:
    rows = (ErrorMapping("a", 201, 77), ErrorMapping("b", 143, 78), ErrorMapping("c", 201, 79))
    assert container_code(exit_codes.BARRIER, 201, rows) == 77
    assert container_code("x", 143, rows) == 78
    assert container_code(exit_codes.BARRIER, 210, rows) == 252
    assert 248 not in {container_code(step, code) for step in exit_codes.STEPS.values() for code in range(1, 256)}
