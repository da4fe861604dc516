"""What a person sees of a running job."""

from __future__ import annotations

import pytest

from kedge.cli.view.live import LiveView


def test_only_the_first_of_many_services_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    view = LiveView(["w:0"])
    for index in range(50):
        facts = {"role": "w", "index": index, "name": "ssh", "address": f"10.0.0.1:{index}"}
        view.event({"event": "service-started", **facts})
        view.event({"event": "service-started", **facts, "address": None})
    shown = capsys.readouterr().err.splitlines()
    assert shown[:2] == ["kedge: w:0: ssh at 10.0.0.1:0", "kedge: w:1: ssh at 10.0.0.1:1"]
    assert shown[10:] == ["kedge: more services have started; kedge show lists them"]
