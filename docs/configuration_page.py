"""The page about settings, with its tables made from the table of settings."""

from __future__ import annotations

from collections.abc import Iterable

from kedge.engines.registry import options_of
from kedge.lazy_modules import ENGINES
from kedge.settings.table import SETTINGS, Setting, engine_settings

HEAD = """\
# Configuration

What a site or a user sets once, for all jobs, is in two files of TOML 1.0. Both may be missing.

| source | who writes it |
|---|---|
| `/etc/kedge/site.toml` | the administrator of the machine or site |
| `$XDG_CONFIG_HOME/kedge/config.toml`, by default `~/.config/kedge/config.toml` | the user |
| `KEDGE_…` variables of the environment | the user, for one shell |
| keys of the job file | the author of the job |
| options of the command | the user, for one command |

A later source takes precedence, for the settings that it may set: the table below shows which. A job file, which may come from a
stranger, never sets engine options, folders of this machine or limits.

```toml
# /etc/kedge/site.toml
engine = "container"
marketplace = "https://market.example.org/kedge/"
registry = "registry.example.org/kedge"
rules = ["rules.toml"]    # /etc/kedge/rules.toml
default-storages = ["datasets"]

[engines.container]
pids-limit = 4096

[marketplaces.vision]
base = "/srv/vision"    # for jobs with extras.kedge.marketplace: vision

[storages.datasets]
path = "/srv/datasets"
writers = ["@data-team"]

[groups.data-team]
members = ["ann", "bob"]

[virtual-clusters.interactive]
engine = "local"
options = { allow-fewer-gpus = true }

[skus.gpu-machine]
cpu = 8
memoryMB = 61440
gpu = 1

[limits.job]
timeLimit = "7d"
tasks = 64
gpu = 8
```

Of `marketplaces`, `virtual-clusters` and `skus`, an entry in the user's file replaces the site's entry of that name as a whole. A
[storage](storages.md) of the user with the name of one of the site is an error.
Relative paths start in the folder of the file, and `~` is the user's home folder.

`registry` is for the runtime image of kedge. What the name of a task's image without a registry means, and which mirror serves it, is
configured in Docker or Podman.

Keep secrets out of these files: every user can read the site's, and `kedge config` prints values (without the passwords of addresses).
Secrets belong in [`--secret`](running.md#parameters-and-secrets).

## Show and check

    kedge config                     # every setting, and which file and line, variable or default it comes from
    kedge config limits.job          # some of them; --json for programs
    kedge config limits.job.gpu      # one of them, with its meaning and what may set it
    kedge config --check site.toml   # every problem of a file that is not in use yet, with line, column and suggestion

`kedge plan job.yaml` shows as notes what the settings decide for a job: the engine, its options, storages, cells.

If a file is wrong, cannot be read, or can be changed by every user of the machine, every command that uses
the settings (`run`, `rerun`, `plan`, `validate`, `lock`, `diagnose`, `rules`, `storages`, `config`) fails with all its problems and exit code 2. Commands
for existing runs (`ps`, `show`, `logs`, `stop`, …) do not read settings.

## Virtual clusters

A job with `defaults.virtualCluster: interactive` runs on the engine of that entry, with its `options` (those of `engines` apply,
too). `--engine` takes precedence. If any virtual cluster is configured, a name without entry is an error, except `default`, which
then means the usual engine. If none is configured, the name only sets `PAI_VIRTUAL_CLUSTER`.

## SKUs of HiveD

With a table of SKUs, a role with `extras.hivedScheduler.taskRoles.ROLE.skuType` requests whole cells, as HiveD allocates them: as
many as `resourcePerInstance` needs of the scarcest resource (`skuNum` has no effect, as in HiveD). The cells replace the cpu,
memoryMB and gpu of `resourcePerInstance`. An unknown SKU, or GPUs of an SKU without any, is an error. Without such a table,
`hivedScheduler` has no effect.

## Limits

A job above a limit is refused with the number, the key and the line of the site's file. Limits count what all tasks of one attempt
request; they are checked after SKUs.

Limits refuse jobs that are too large by mistake. They do not confine a user, who can also run other programs.

## Other places for the files

`KEDGE_SITE_FILE` and `KEDGE_CONFIG_FILE` name other files in place of the two; `/dev/null` means no settings. `KEDGE_SITE_FILE` is
refused if `/etc/kedge/site.toml` exists and the user cannot write it, so that it does not lift the limits of a site.
"""

TABLE_HEAD = """
## Every setting

`*` stands for a name that the file chooses. *site* in the last column: only the site's file may set it.

| setting | type | default | meaning | also set by |
|---|---|---|---|---|
"""

ENGINES_HEAD = """
## Options of engines

The options of an engine, also [of an installed package](engines.md), are settings in `engines.NAME`.

| setting | type | default | meaning | also set by |
|---|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    engines = (setting for name in ENGINES for setting in engine_settings(name, options_of(name)))
    return HEAD + TABLE_HEAD + _rows(SETTINGS) + ENGINES_HEAD + _rows(engines)


def table_of_engine(name: str) -> str:
    """The options of one engine, for its own page."""
    return "".join(TABLE_HEAD.splitlines(keepends=True)[-2:]) + _rows(engine_settings(name, options_of(name)))


def _rows(settings: Iterable[Setting]) -> str:
    return "".join(f"| {' | '.join(_cells(setting))} |\n" for setting in settings)


def _cells(setting: Setting) -> tuple[str, ...]:
    key = f"**`{setting.key}`**" if setting.required else f"`{setting.key}`"
    default = str(setting.default).lower() if isinstance(setting.default, bool) else setting.default
    return (
        key,
        " or ".join(f"`{each}`" for each in setting.schema.get("enum", ())) or _type(setting.schema["type"]),
        "" if default is None else f"`{default}`",
        setting.help,
        ", ".join(_also(setting)),
    )


def _type(kind: str | list[str]) -> str:
    return kind if isinstance(kind, str) else " or ".join(kind)


def _also(setting: Setting) -> Iterable[str]:
    return (*(["*site*"] if setting.site_only else []), *(f"`{name}`" for name in setting.also_set_by))
