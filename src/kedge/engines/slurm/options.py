"""The options of the Slurm engine: those of a user, and those that only the site sets."""

from __future__ import annotations

from typing import Any, NamedTuple

from kedge.engines.base import EngineOption
from kedge.errors import InputError
from kedge.spec.units import DURATION, NOT_A_DURATION, seconds

GROUP = "slurm"
BARE, PYXIS, APPTAINER = "none", "pyxis", "apptainer"
_NAMES = r"^[A-Za-z0-9_.@+-]+(,[A-Za-z0-9_.@+-]+)*$"
_NO_NAMES = "is not a name, or several with commas between them"
_NAME = r"^[A-Za-z0-9_.@+-]+$"
_NO_NAME = "is not a name"
_CONSTRAINT = r"^[\w.@+:*&|,()\[\]-]+$"
_NO_CONSTRAINT = "is not an expression of features, such as a100&ib or [rack1|rack2]"
# A short number would be a count, but there are types such as 4090.
_GRES = r"^[A-Za-z0-9_.-]+(:[A-Za-z0-9_.-]*[A-Za-z_.-][A-Za-z0-9_.-]*|:[0-9]{3,9})?$"
_NO_GRES = "is not the name of GPUs; write gpu, or a name and a type such as gpu:a100. The job says how many"
_LINE = r"^[^\x00-\x1f\x7f]+$"
_NO_LINE = "must be one line"
_DIRECTIVE = r"^--?[A-Za-z][^\x00-\x1f\x7f]*$"
_NO_DIRECTIVE = "is not an option of sbatch, such as --licenses=matlab:1"
_PATH = r"^/[^\x00-\x1f\x7f:,]*$"
_NO_PATH = "must be an absolute path without a colon or a comma"
_PORTS = r"^[0-9]{1,5}-[0-9]{1,5}$"
_TIME = "time of the slurm engine (--slurm time, extras.slurm.time or engines.slurm.time)"
_NO_PORTS = "is not a range of ports, such as 20000-20099"


def _text(name: str, text: str, metavar: str, pattern: str, mismatch: str) -> EngineOption:
    return EngineOption(name, str, text, metavar=metavar, pattern=pattern, mismatch=mismatch, group=GROUP)


def _of_site(name: str, kind: Any, text: str, **more: Any) -> EngineOption:
    return EngineOption(name, kind, text, group=GROUP, site_only=True, **more)


ACCEPTS = (
    _text(
        "partition", "The partition, or several with commas between them: the job runs in the one where it can start "
        "first.",
        "NAMES", _NAMES, _NO_NAMES,
    )
    ._replace(is_queue=True),  # what others call a queue: where jobs of a kind wait for their nodes
    _text("account", "The account to charge.", "NAME", _NAME, _NO_NAME),
    _text("qos", "The quality of service.", "NAME", _NAME, _NO_NAME),
    _text(
        "time", "The time limit of the allocation, with a unit, such as 90m or 2d. By default it follows from the "
        "job's time limit.",
        "TIME", DURATION, NOT_A_DURATION,
    ),
    _text("constraint", "The features that nodes must have.", "FEATURES", _CONSTRAINT, _NO_CONSTRAINT),
    _text("reservation", "The reservation to run in.", "NAME", _NAMES, _NO_NAMES),
    EngineOption("exclusive", bool, "Do not share the job's nodes with other jobs.", group=GROUP),
    _text("gres", "How the cluster names the GPUs: a name, or a name and a type.", "NAME[:TYPE]", _GRES, _NO_GRES)
    ._replace(default="gpu"),
    EngineOption(
        "requeue", bool, "Let Slurm put the job back into the queue after a node failure, a preemption or its time "
        "limit.", group=GROUP,
    ),
    _of_site(
        "container", str, "How the cluster runs images.", choices=(BARE, PYXIS, APPTAINER), default=BARE,
    ),
    _of_site(
        "sbatch", list, "More options for `sbatch`, one in each item, such as `--licenses=matlab:1`.",
        pattern=_DIRECTIVE, mismatch=_NO_DIRECTIVE,
    ),
    _of_site(
        "prologue", list, "Lines of shell that the batch script runs first, such as `module load cuda`.",
        pattern=_LINE, mismatch=_NO_LINE,
    ),
    _of_site(
        "epilogue", list, "Lines of shell that the batch script runs last.", pattern=_LINE, mismatch=_NO_LINE,
    ),
    _of_site(
        "commands", str, "The folder of Slurm's commands, if they are not on everybody's PATH.",
        pattern=_PATH, mismatch=_NO_PATH,
    ),
    _of_site(
        "conf", str, "Slurm's configuration file, for `SLURM_CONF`.", pattern=_PATH, mismatch=_NO_PATH,
    ),
    _of_site(
        "link_ports", str, "The range of ports from which the controller takes one, to which its tasks connect.",
        pattern=_PORTS, mismatch=_NO_PORTS,
    ),
    _of_site(
        "barrier", str, "How long the tasks of a job wait for each other before the attempt fails.", default="10m",
        pattern=DURATION, mismatch=NOT_A_DURATION,
    ),
    _of_site(
        "unreachable", str, "How long a task may be silent before it is reported as unreachable; it is not ended.",
        default="2m", pattern=DURATION, mismatch=NOT_A_DURATION,
    ),
    _of_site(
        "fixed", list, "The names of options that neither users nor job files may set.",
        choices=("partition", "account", "qos", "time", "constraint", "reservation", "exclusive", "gres", "requeue"),
    ),
)  # fmt: skip


class SlurmOptions(NamedTuple):
    """The values of ACCEPTS, by the same names: `SlurmOptions(**engine.options)`."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    time: str | None = None
    constraint: str | None = None
    reservation: str | None = None
    exclusive: bool = False
    gres: str = "gpu"
    requeue: bool = False
    container: str = BARE
    sbatch: tuple[str, ...] | list[str] = ()
    prologue: tuple[str, ...] | list[str] = ()
    epilogue: tuple[str, ...] | list[str] = ()
    commands: str | None = None
    conf: str | None = None
    link_ports: str | None = None
    barrier: str = "10m"
    unreachable: str = "2m"
    fixed: tuple[str, ...] | list[str] = ()

    @property
    def time_sec(self) -> float | None:
        """The time limit that the user asks for. InputError: it has no unit, so its meaning would be a guess, or it is
        0, which Slurm takes for none."""
        if self.time and self.time.replace(".", "").isdigit():
            raise InputError(
                f"{_TIME}: {self.time} has no unit. Slurm would take it as minutes, kedge as seconds; write "
                f"{self.time}m or {self.time}s"
            )
        if self.time and not seconds(self.time):
            raise InputError(f"{_TIME}: {self.time} is not a time limit; leave it out for the default")
        return seconds(self.time) if self.time else None

    @property
    def port_range(self) -> tuple[int, int] | None:
        """The first and the last port for the link; None: any. InputError: there is no such range."""
        if not self.link_ports:
            return None
        first, last = map(int, self.link_ports.split("-"))
        if not 0 < first <= last < 65536:
            raise InputError(f"engines.slurm.link-ports: {self.link_ports} {_NO_PORTS}")
        return first, last
