"""Removes the secrets of a job that has ended from its objects. A later driver still finds a seed, without them."""

from __future__ import annotations

import io
import json
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kedge.engines.kubernetes.api import ApiError, KubernetesApi
from kedge.engines.kubernetes.in_driver import leaving, seed
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.engines.kubernetes.objects.run_objects import SEED_KEY, encoded
from kedge.runs import status
from kedge.runs.folder import Run

_NOT_FOUND = 404


def remove(api: KubernetesApi, run: Run, names: RunNames, given: Path, check: Callable[[], object]) -> None:
    """Remove the values of secrets, keys and tokens. `given` is the seed; `check` is called before each try."""
    bare = {"data": {SEED_KEY: encoded(without_secrets(given))}}
    calls: list[Callable[[], object]] = [lambda: api.patch("Secret", names.driver_secret, bare)]
    secrets = [names.pull_secret, *(names.tokens(number) for number in range(status.read(run).attempt + 1))]
    calls += [lambda each=name: api.delete("Secret", each) for name in secrets]  # type: ignore[misc]
    for call in calls:
        _done(call, check)


def _done(call: Callable[[], object], check: Callable[[], object]) -> None:
    while True:
        check()
        try:
            call()
            return
        except ApiError as error:
            if error.status == _NOT_FOUND:  # the run was removed
                return
            if not error.unreachable:  # no reason to keep the job's end from its user
                print(f"kedge: a secret of the job is not removed: {error}", file=sys.stderr, flush=True)
                return
            leaving.wait_for_api(error)


def without_secrets(given: Path) -> bytes:
    """The seed without its folder `cluster`, except for the options of the engine."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as bare:
        try:
            with tarfile.open(given) as archive:
                for member in archive:
                    if member.name.removeprefix("./").partition("/")[0] != "cluster":
                        bare.addfile(member, archive.extractfile(member) if member.isreg() else None)
        except (OSError, tarfile.TarError):  # a later driver says that it cannot be read
            pass
        _add(bare, seed.ORDERS, {"options": seed.options_in(given)})
    return made.getvalue()


def _add(archive: tarfile.TarFile, name: str, value: Any) -> None:
    data = json.dumps(value).encode()
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o600
    archive.addfile(info, io.BytesIO(data))
