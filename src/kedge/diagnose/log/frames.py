"""Frames of a Python traceback, and which of them are the user's own code."""

from __future__ import annotations

from kedge.diagnose.regex import regex
from kedge.light.types import NamedTuple

# The interpreter's form, and that of rich: `│ /work/train.py:88 in step │`.
_PLAIN = rb'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<where>.+))?'
_RICH = rb"^\xe2\x94\x82 (?P<file>[^\s:]+\.py):(?P<line>\d+) in (?P<where>[^\s]+)"
# Parts of the paths of installed code, which is not the user's.
_INSTALLED = (
    "/site-packages/",
    "/dist-packages/",
    "/lib/python",
    "/lib64/python",
    "<",
    "/runpy.py",
    "/importlib/",
    "/opt/conda/lib/",
)
# Clients of services outside the job.
_CLIENTS = (
    "/urllib/", "/urllib3/", "/http/client.py", "/requests/", "/httpx/", "/httpcore/", "/aiohttp/", "/huggingface_hub/",
    "/botocore/", "/google/cloud/", "/ftplib.py", "/paramiko/",
)  # fmt: skip
# The outermost frame of an uncaught exception: the main program, or a function that starts a process or a thread.
_OUTERMOST = ("<module>", "_run_module_as_main", "_bootstrap", "_bootstrap_inner", "_wrap", "_call_main")


# Functions of libraries that check their arguments: constructors, `validate_args`, `check_config` and so on.
_CHECKS = (
    rb"^__(?:post_)?init__$|^_*(?:re)?validate(?:_\w*(?:arg|conf|param|option|setting|spec)\w*)?$|"
    rb"(?:check|verify|sanity|parse|resolve|finalize|handle)_\w*(?:arg|conf|param|option|setting)"
)


class Frame(NamedTuple):
    """One frame of a traceback."""

    file: str
    line: str
    where: str

    def __str__(self) -> str:
        place = f"{self.file.rsplit('/', 1)[-1]}:{self.line}"
        return f"{place} in {self.where}" if self.where and self.where != "<module>" else place

    @property
    def users(self) -> bool:
        """Whether it is the user's own code."""
        return not any(part in self.file for part in _INSTALLED) and not self.file.startswith("/usr/lib")

    @property
    def of_client(self) -> bool:
        """Whether it is code that talks to a remote service."""
        return any(part in self.file for part in _CLIENTS)

    def before(self, later: Frame) -> bool:
        """Whether a program that is at `later` has passed this frame: that is further down in the same file."""
        return self.file == later.file and (len(self.line), self.line) < (len(later.line), later.line)

    @property
    def checks_arguments(self) -> bool:
        """Whether it is library code that checks its arguments."""
        return not self.users and bool(regex(_CHECKS).search(self.where.rpartition(".")[2].encode()))

    @property
    def outermost(self) -> bool:
        """Whether a traceback that starts here belongs to an uncaught exception."""
        return self.where in _OUTERMOST and self.file != "<string>"  # `python -c` in a script is often just a test


def read(body: bytes) -> Frame | None:
    """The frame in a line of a traceback, if there is one."""
    found = regex(_PLAIN).search(body) or regex(_RICH).search(body)
    if not found:
        return None
    file, line, where = (part.decode("utf-8", "replace").strip() if part else "" for part in found.groups())
    return Frame(file, line, where)
