"""The built-in init programs as files in init.d, so that a specification starts them by the names that OpenPAI's
interface proposal gives them: `python imageChecker.py`, `pai/frameworkBarrier framework.json`."""

from __future__ import annotations

from kedge.light.types import Mapping, MappingProxyType

FILES: Mapping[str, str] = MappingProxyType({  # path in init.d -> name in INIT_PROGRAMS
    "frameworkBarrier": "frameworkBarrier",
    "frameworkbarrier": "frameworkBarrier",
    "frameworkRetriever": "frameworkRetriever",
    "frameworkParser.py": "frameworkParser",
    "pai/frameworkBarrier": "frameworkBarrier",
    "pai/frameworkRetriever": "frameworkRetriever",
    "pai/frameworkParser.py": "frameworkParser",
    "envGenerator.py": "envGenerator",
    "imageChecker.py": "imageChecker",
    "portChecker.py": "portChecker",
    "command_render.py": "userCommandRender",
    "userCommandRender.py": "userCommandRender",
})  # fmt: skip

_TEXT = """\
#!/usr/bin/env python3
# A built-in program of kedge's init phase.
import sys

# Under the bundle's Python, kedge is beside its folder bin; an installed kedge is found without this.
sys.path.append(f"{{sys.executable.rpartition('/bin/')[0]}}/site")
from kedge.dropin.programs import main

sys.exit(main({name!r}))
"""


def text(name: str) -> str:
    """The content of a file for the program with this name."""
    return _TEXT.format(name=name)


def program_in(file: str, init_d: str) -> str | None:
    """The built-in program that a file in init.d runs. None for others, also where a site has put a program of its own
    in place of a built-in one."""
    if name := FILES.get(file):
        expected = text(name).encode()
        try:
            with open(f"{init_d}/{file}", "rb") as opened:
                return name if opened.read(len(expected) + 1) == expected else None
        except OSError:
            pass
    return None
