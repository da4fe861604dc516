"""Every setting, as data. The check of settings files, `kedge config`, the names of variables and the page of the
documentation are made from this table. A new setting is one row here, and the code that uses it."""

from __future__ import annotations

from kedge.light.types import Any, Iterator, Mapping, NamedTuple
from kedge.spec.units import DURATION, NOT_A_DURATION

ANY_NAME = "*"
STORAGES = "storages"
GROUPS = ("marketplaces", STORAGES, "groups", "virtual-clusters", "skus")  # whose entries the site and the user name

_TEXT = {"type": "string", "minLength": 1}
_TEXTS = {"type": "array", "items": _TEXT}
_COUNT = {"type": "integer", "minimum": 0}
_POSITIVE = {"type": "integer", "minimum": 1}


class Setting(NamedTuple):
    """One key of a settings file, such as `limits.job.gpu`; `*` is a name that the file chooses.

    `schema` is its type as JSON Schema. `site_only`: only the site's file may set it. `variable`: an environment
    variable may set it. `job`, `option` and `short_option` are the key of the job file and the options that set the
    same, if any.
    `is_path`: the value is a path, relative to the file, or a list or a mapping of such paths.
    """

    key: str
    schema: Mapping[str, Any]
    help: str
    default: Any = None
    site_only: bool = False
    variable: bool = False
    job: str = ""
    option: str = ""
    short_option: str = ""
    required: bool = False
    is_path: bool = False

    @property
    def variable_name(self) -> str:
        """The name of its environment variable."""
        return "KEDGE_" + self.key.upper().replace(".", "_").replace("-", "_")

    @property
    def also_set_by(self) -> tuple[str, ...]:
        """What sets it besides files, later ones with precedence: its variable, a key of the job file, an option."""
        return tuple(
            filter(None, (self.variable_name if self.variable else "", self.job, self.option, self.short_option))
        )


def _limit(key: str, schema: Mapping[str, Any], text: str, default: Any = None) -> Setting:
    return Setting(f"limits.{key}", schema, text, default, site_only=True)


ENGINE = Setting(
    "engine", _TEXT, "The engine that runs jobs.", "local", variable=True, job="defaults.virtualCluster",
    option="--engine",
)  # fmt: skip
MARKETPLACE = Setting(
    "marketplace", _TEXT, "The base of `marketplace://` names: a folder or a URL. All but settings files may also "
    "give the name of one of `marketplaces`.", variable=True, job="extras.kedge.marketplace", option="--marketplace",
    is_path=True,
)  # fmt: skip
REGISTRY = Setting(
    "registry", {**_TEXT, "pattern": r"^[\w.-]+(:\d+)?(/[\w./-]+)?$", "patternErrorMessage": "is not a registry"},
    "The registry, with a path in it if needed, that holds the site's runtime image. `kedge bundle --oci` prints the "
    "command that pushes it there.", site_only=True,
)  # fmt: skip
RULES = Setting(
    "rules", _TEXTS, "Files with [rules](rules.md) for causes of failures, and at most one exit spec, for every job. "
    "Those of the job file and of `--rules` are added.", job="extras.kedge.rules", option="--rules", is_path=True,
)  # fmt: skip
HOSTS_LIMIT = _limit(
    "hosts",
    {**_TEXTS, "minItems": 1},
    "The only hosts to fetch prerequisites from. `--allow-host` may name some.",
)
_DURATION = {
    "type": ["number", "string"], "unit": "seconds", "pattern": DURATION, "patternErrorMessage": NOT_A_DURATION,
    "exclusiveMinimum": 0,
}  # fmt: skip
TIME_LIMIT = _limit(
    "job.timeLimit", _DURATION, "The longest time for a whole run: seconds, or a duration such as 2d. It also ends "
    "jobs that set no limit.",
)  # fmt: skip
_DURATION_OR_NONE = {**{key: value for key, value in _DURATION.items() if key != "exclusiveMinimum"}, "minimum": 0}
HOLD_LIMIT = _limit(
    "job.holdOnFailure", _DURATION_OR_NONE, "The longest time for which `--hold-on-failure` may keep a failed task "
    "alive; 0 forbids it. Without the key, any time within the time limits of the job.",
)  # fmt: skip
_USERS = {
    **_TEXTS, "items": {**_TEXT, "pattern": r"^@?[^\s@][^\s]*$", "patternErrorMessage": "is not a user or @group"},
}  # fmt: skip
_MOUNT_OPTIONS = {**_TEXT, "pattern": r"^[^\s]+$", "patternErrorMessage": "must not contain spaces"}
_SERVER = {**_TEXT, "pattern": r"^[\w.:%-]+$", "patternErrorMessage": "is not the name or address of a server"}
_NFS = {
    "type": "object", "required": ["server", "path"], "additionalProperties": False,
    "properties": {
        "server": _SERVER,
        "path": {**_TEXT, "pattern": "^/.*$", "patternErrorMessage": "must be an absolute path on the server"},
        "options": _MOUNT_OPTIONS,
    },
}  # fmt: skip
_CIFS = {
    "type": "object", "required": ["share"], "additionalProperties": False,
    "properties": {
        "share": {
            **_TEXT, "pattern": r"^//[\w.:%-]+/[^/]+.*$", "patternErrorMessage": "must have the form //SERVER/SHARE",
        },
        "options": _MOUNT_OPTIONS,
    },
}  # fmt: skip
_OBJECT = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"  # the name of an object of Kubernetes
_SUB_PATH = {
    **_TEXT, "pattern": r"^(?!/)(?!(.*/)?\.\.?(/|$))([^{}]|\{(user|job)\})+$",
    "patternErrorMessage": "must be a relative path without '..'; its placeholders are {user} and {job}",
}  # fmt: skip
DEFAULT_STORAGES = Setting(
    "default-storages", _TEXTS, "The names of the storages that jobs with `extras.storages: []` mount, in place of "
    "those with `default = true`. A list of the site does not hide the user's own ones.",
)  # fmt: skip
STORAGES_LIMIT = _limit(
    "storages", _TEXTS, "The only folders in which users may have storages of their own, in `config.toml` or by "
    "`--storage`. An empty list means that they may have none.",
)._replace(is_path=True)  # fmt: skip
CODE_LIMIT = _limit("job.codeMB", _POSITIVE, "MiB of each folder of code that a job copies.", 1024)

SETTINGS = (
    ENGINE,
    MARKETPLACE,
    Setting(
        "marketplaces.*.base", _TEXT, "The folder or the URL of the marketplace with this name.", required=True,
        is_path=True,
    ),
    REGISTRY,
    RULES,
    Setting(
        "storages.*.path", _TEXT, "The folder of this machine that jobs name as this storage; beside `nfs` or `cifs`, "
        "the folder where the site has mounted that.", option="--storage", is_path=True,
    ),
    Setting(
        "storages.*.nfs", _NFS, "An export of an NFS server: `server`, `path` and, if needed, mount `options`.",
        site_only=True,
    ),
    Setting(
        "storages.*.cifs", _CIFS, "A share of a Windows or Samba server: `share`, as `//SERVER/SHARE`, and mount "
        "`options`.", site_only=True,
    ),
    Setting(
        "storages.*.pvc", {**_TEXT, "pattern": _OBJECT, "patternErrorMessage": "is not the name of a claim"},
        "For Kubernetes: the PersistentVolumeClaim of the namespace that jobs mount as this storage.", site_only=True,
    ),
    Setting(
        "storages.*.credentials", _TEXT, "A file with `username=` and `password=` for `cifs`, which only root reads.",
        site_only=True, is_path=True,
    ),
    Setting(
        "storages.*.users", _USERS, "The users and `@groups` that may use it; without the key, everybody.",
        site_only=True,
    ),
    Setting("storages.*.readOnly", {"type": "boolean"}, "Whether tasks can only read it.", False),
    Setting(
        "storages.*.writers", _USERS, "The users and `@groups` that may write to it; others can only read it.",
        site_only=True,
    ),
    Setting(
        "storages.*.subPath", _SUB_PATH, "The folder in it that a job gets, with `{user}` for the name of the "
        "submitter's account and `{job}` for that of the job.", site_only=True,
    ),
    Setting(
        "storages.*.makeSubPath", {"type": "boolean"}, "Whether kedge makes a missing `subPath`, as the submitter.",
        False, site_only=True,
    ),
    Setting("storages.*.default", {"type": "boolean"}, "Whether jobs with `extras.storages: []` mount it.", False),
    DEFAULT_STORAGES,
    Setting(
        "groups.*.members", _TEXTS, "The users of a group of this name, for `@NAME`. Other names are groups of the "
        "operating system.", site_only=True, required=True,
    ),
    Setting(
        "virtual-clusters.*.engine", _TEXT, "The engine for jobs with this `defaults.virtualCluster`.", required=True
    ),
    Setting(
        "virtual-clusters.*.options", {"type": "object"},
        "Options of that engine; they take precedence over those in `engines`.",
    ),
    Setting("skus.*.cpu", _POSITIVE, "Cores of one cell of this `skuType`.", required=True),
    Setting("skus.*.memoryMB", _POSITIVE, "MiB of memory of one cell.", required=True),
    Setting("skus.*.gpu", _COUNT, "GPUs of one cell.", 0),
    HOSTS_LIMIT,
    STORAGES_LIMIT,
    _limit("job.tasks", _POSITIVE, "Tasks of a job."),
    _limit("job.cpu", _POSITIVE, "Cores of all tasks of a job together."),
    _limit("job.memoryMB", _POSITIVE, "MiB of memory of all tasks of a job together."),
    _limit("job.gpu", _COUNT, "GPUs of all tasks of a job together."),
    TIME_LIMIT,
    HOLD_LIMIT,
    CODE_LIMIT,
    _limit("task.cpu", _POSITIVE, "Cores of one task."),
    _limit("task.memoryMB", _POSITIVE, "MiB of memory of one task."),
    _limit("task.gpu", _COUNT, "GPUs of one task."),
)  # fmt: skip


def engine_settings(engine: str, options: Any) -> Iterator[Setting]:
    """The settings for the options (engines.base.EngineOption) of one engine."""
    for option in options:
        text = option.help.removeprefix("Containers: ")
        yield Setting(
            f"engines.{engine}.{option.key}",
            _schema(option),
            text[:1].upper() + text[1:],
            False if option.kind is bool else option.default,
            site_only=option.site_only,
            variable=option.kind is not dict and not option.site_only,
            job=f"extras.{option.group}.{option.key}" if option.group and not _is_not_of_job(option) else "",
            option="" if option.site_only else option.flag,
            short_option="--queue" if option.is_queue else "",
            is_path=option.kind is dict,
        )


def _is_not_of_job(option: Any) -> bool:
    return bool(option.site_only or option.not_in_job)


def _schema(option: Any) -> dict[str, Any]:
    if option.kind is bool:
        return {"type": "boolean"}
    if option.kind is dict:
        return {"type": "object", "additionalProperties": _TEXT}
    if option.kind is int:
        return {"type": "integer"} if option.least is None else {"type": "integer", "minimum": option.least}
    text = {"type": "string", "enum": list(option.choices)} if option.choices else _TEXT
    if option.pattern:
        text = {**text, "pattern": option.pattern, "patternErrorMessage": option.mismatch}
    if option.pattern == DURATION:
        text |= {"unit": "seconds", **({} if option.least is None else {"minimum": option.least})}
    return {"type": "array", "items": text} if option.kind is list else text
