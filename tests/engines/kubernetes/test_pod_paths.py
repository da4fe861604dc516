"""The paths that pods and images agree on."""

from __future__ import annotations

from kedge.bundle import contents, tree
from kedge.engines.kubernetes.objects import pod_paths


def test_programs_are_where_the_image_has_them() -> None:
    assert tree.BUNDLE == pod_paths.IMAGE_BUNDLE
    assert f"{pod_paths.BUNDLE}/{contents.BUSYBOX}" == pod_paths.SUPERVISOR_COMMAND[0]
