"""Writes the pages and pictures that are made from the code: `python docs/generate.py`.

A test fails when one of them is out of date.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import architecture
import configuration_page
import error_index
import pod_ends

import kedge
from kedge.diagnose.decide.remedies import remedy
from kedge.diagnose.model import Cause
from kedge.plugins.base import PREFIX
from kedge.spec.schema import schema

DOCS = Path(__file__).parent
CAUSES = Path(kedge.__file__).parent / "diagnose" / "causes.toml"

HEAD = """\
# The job file

A job file is YAML 1.2 in OpenPAI's job protocol, version 2. `kedge validate` checks one and shows
[every problem](#errors-and-warnings) at once. The tables below are made from the JSON Schema that `kedge schema` prints.

To complete and check keys in an editor, run `kedge schema > job.schema.json` beside the job file, and make this its first line:

    # yaml-language-server: $schema=./job.schema.json

`run`, `validate`, `plan` and `lock` accept `-` for stdin. Messages call it `<stdin>`, relative paths start in the current folder,
and there is no lock file (`kedge lock -` prints one).

## References

`<% $parameters.lr %>` in a command or a hook stands for the value of the parameter `lr`. The roots are `$parameters`, `$secrets`,
and `$data`, `$script` and `$output` for the prerequisites that a role names; `.name` and `[0]` select a part. A value is inserted
as written in the file (`1.0` stays `1.0`); quoting is up to the command. Secrets are inserted only inside the task. An unknown
reference is an error (`extras.kedge.unknownReferences: keep` keeps its text); text in other brackets stays. References do not work
in place of numbers, in names, or in the values of parameters.

## Environment

`extras.kedge.env` sets environment variables of all tasks, `extras.kedge.taskRoles.ROLE.env` those of one role, which take
precedence. Numbers and booleans become their text in the file (`1.0`, `true`); values may contain references, secrets too. Hooks and
the command see them; in a container they replace the image's variables. Variables that a prerequisite sets or a start hook exports
come later, so they take precedence. kedge reserves `PAI_*`, `FC_*`, `KEDGE_*`, `CUDA_VISIBLE_DEVICES`, `CUDA_DEVICE_ORDER`,
`NVIDIA_VISIBLE_DEVICES` and `RUNTIME_LOG_PIPE`. A variable with its name has at most 100,000 bytes, all of a task 1 MiB.

`run`, `plan`, `validate` and `lock` accept `--env NAME=VALUE`, `--env NAME` and `--env-file FILE`, for all tasks. `--env` replaces
`--env-file`, which replaces the job file; of several, the last takes precedence. A file has the format of `docker run --env-file`:
lines NAME=VALUE or NAME, without quotes. `--env NAME=VALUE` and the values in files are stored with the run as plain text. NAME alone
takes the value from your shell and is treated as a secret: kedge masks it in logs, and never writes it to the run folder.

```yaml
extras:
  kedge:
    env: {OMP_NUM_THREADS: 4, HF_TOKEN: "<% $secrets.token %>"}
    taskRoles:
      ps: {env: {OMP_NUM_THREADS: 1}}
```

## Prerequisites

| `type` | `uri` | other keys |
|---|---|---|
| `dockerimage` | required: the image; may refer to parameters | `auth: {username, password, registryuri}`; a password belongs in `secrets` |
| `script`, `output`, `storage` | a string; for a script, a path that starts with `./`, `../`, `/` or `~/` is [code](running.md#code) | `plugin`, `callbacks`, `failurePolicy`, `require`, and parameters of the plugin |
| `data` | a list of strings | the same |

The `cmd` plugin and its `callbacks` are [hooks](runtime.md#hooks). [Prerequisites](prerequisites.md) describes all keys.

## Errors and warnings

Each message names file, line, column, the path to the value, and what was most likely meant. A warning is about something that
OpenPAI accepts, or that might be intended; everything else is an error. `validate`, `plan` and `run` show warnings, `run` in one
line each. `kedge validate --strict` treats them as errors (exit code 2).

| problem | reported as |
|---|---|
| a wrong shape or type, an unknown or repeated key; `4GB`, `10m` or `"8"` for a number (with the number to write); 1024 or more ports of one label (that is a port number) | error |
| an undefined or duplicate name; an unknown reference, or one that is never closed | error |
| `<% $params.lr %>`, `<% $secret.x %>`, `<% parameters.lr %>`: a mistyped root of a reference, or a missing `$` | error |
| `sha256` of data without a `uri`; a cycle of prerequisites | error |
| text that looks like a reference: `${{ parameters.lr }}`, `{{ lr }}`, `<% $x %>`, `<%= $parameters.lr %>`, `$parameters.lr`; a reference where none is replaced | warning |
| a key one or two letters away from a known one, where any key is allowed (prerequisites, `extras`, `defaults`, …) | warning |
| a `PAI_…` variable for a role, task or port label that the job does not have | warning |
| commands and hooks that `bash -n` refuses (`sh -n` if there is no bash); nothing is executed | warning |
| unused parameters, secrets and prerequisites | warning |
| `minFailedInstances`, `minSucceededInstances` above `instances`: never reached | warning |
| `taskRetryCount` without `extras.gangAllocation: false`: no effect | warning |
| `warnBefore` that is not shorter than a time limit | error |
| `warnBefore` without a time limit; a time limit that never passes because one that includes it is not longer | warning |
| a name of an image that no container engine accepts, such as `PyTorch/pytorch` | warning |
| empty `ports:` or `storages:`, unknown keys in `auth` and in storages, storages without a name; 22, 80 or 443 ports of one label | warning |

`kedge validate --json` prints them for editors and CI, even if the file is not YAML:

```json
{
  "version": 1,
  "problems": [
    {
      "severity": "error",
      "file": "job.yaml",
      "line": 14,
      "column": 19,
      "path": "taskRoles.worker.commands[0]",
      "message": "'<% $params.lr %>' is not a reference; write <% $parameters.lr %>",
      "suggestion": "<% $parameters.lr %>"
    }
  ]
}
```

`severity` is `error` or `warning`; `line` and `column` count from 1 and are null for the file as a whole; `suggestion` is
what to write instead, or null.

## Keys

A duration is a number of seconds, or a text with units, the largest first: `90s`, `30m`, `1h30m`, `1.5h`, `2d`.
Keys in **bold** are required. `*` stands for any name, `[]` for an item of a list.
"""


CAUSES_HEAD = """\
# Causes of failure

A [report](reports.md) names one of these. The behaviour is whether the same job, submitted again unchanged, can work; it decides
about [retries](policies.md#what-is-tried-again). A cause *around* the program (networks, services, other jobs,
machines) is retried up to the limit, however often it repeats; any other cause ends the retries when it repeats.

| cause | meaning | who can fix it | behaviour | what to do |
|---|---|---|---|---|
"""


def pages() -> dict[Path, str]:
    """Every page and picture that is made from the code, with its text."""
    return {
        DOCS / "job-file.md": job_file(),
        DOCS / "causes.md": causes(),
        DOCS / "configuration.md": configuration_page.page(),
        DOCS / "slurm.md": engine_page("slurm"),
        DOCS / "kubernetes.md": with_part(engine_page("kubernetes"), "ends of tasks", pod_ends.table()),
        DOCS / "errors.md": error_index.page(),
        DOCS / "architecture.svg": architecture.picture(),
    }


def engine_page(engine: str) -> str:
    """The page about an engine, which is written by hand but for its table."""
    text = (DOCS / f"{engine}.md").read_text(encoding="utf-8")
    return with_part(text, "settings", configuration_page.table_of_engine(engine))


def with_part(page: str, name: str, made: str) -> str:
    """A page with one of its parts made anew, which comments enclose."""
    head, begin, rest = page.partition(f"<!-- {name}: made by docs/generate.py -->\n")
    _, end, tail = rest.partition(f"<!-- end of {name} -->\n")
    return f"{head}{begin}\n{made}\n{end}{tail}"


def causes() -> str:
    """The page about causes."""
    rows = [
        f"| `{name}` | {cause['meaning']} | {cause['owner']} | {cause['behaviour']}{_around(cause)} | {_remedy(cause)} |"
        for name, cause in tomllib.loads(CAUSES.read_text(encoding="utf-8")).items()
    ]
    return CAUSES_HEAD + "\n".join(rows) + "\n"


def _around(cause: dict[str, Any]) -> str:
    return ", around" if cause.get("around") else ""


def _remedy(cause: dict[str, Any]) -> str:
    return " ".join(remedy(Cause("", "", "", tuple(cause["remedy"]))))


def job_file() -> str:
    """The page about job files."""
    top = schema()
    sections = [HEAD]
    for name, title in (("", "### The job"), ("taskRoles.*", "### A task role"), ("extras", "### Extras")):
        rows = [row for row in _rows(top, top, "", ()) if _section(row[0]) == name]
        table = [f"| {' | '.join(row[1:])} |" for row in rows]
        sections.append("\n".join((title, "", "| key | type | default | meaning |", "|---|---|---|---|", *table, "")))
    return "\n".join(sections)


def _section(path: str) -> str:
    return next((name for name in ("taskRoles.*", "extras") if path.startswith(name)), "")


def _rows(top: dict[str, Any], node: dict[str, Any], path: str, seen: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """(path, shown key, type, default, meaning) of everything below a part of the schema."""
    required = set(node.get("required", ()))
    for name, child in node.get("properties", {}).items():
        yield from _below(top, child, f"{path}.{name}".lstrip("."), name in required, seen)
    for child in (node.get("additionalProperties"), *node.get("patternProperties", {}).values()):
        if isinstance(child, dict):
            yield from _below(top, child, f"{path}.*", False, seen)
    if isinstance(node.get("items"), dict):
        yield from _below(top, node["items"], f"{path}[]", False, seen)


def _below(
    top: dict[str, Any], child: dict[str, Any], path: str, required: bool, seen: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    reference = child.get("$ref", "")
    if reference in seen:
        return
    merged = {**_resolve(top, reference), **child}
    key = f"**`{path}`**" if required else f"`{path}`"
    if "description" in merged:
        yield path, key, _type(merged), _default(merged), merged["description"].replace("|", "\\|")
    yield from _rows(top, merged, path, (*seen, reference) if reference else seen)


def _resolve(top: dict[str, Any], reference: str) -> dict[str, Any]:
    found: Any = top
    for step in reference.removeprefix("#/").split("/") if reference else ():
        found = found[step]
    if not reference:
        return {}
    return {**_resolve(top, found.get("$ref", "")), **found}


def _type(node: dict[str, Any]) -> str:
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in _distinct(node["enum"]))
    if "const" in node:
        return f"`{node['const']}`"
    if node.get("unit") == "seconds":
        return "duration"
    kind = node.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _default(node: dict[str, Any]) -> str:
    return f"`{json.dumps(node['default'])}`" if node.get("default", {}) not in ({}, []) else ""


def _distinct(values: list[Any]) -> list[Any]:
    """Drops other spellings of a value: upper and lower case, a string for a number, a long name or prefix."""
    found: dict[str, Any] = {}
    for value in values:
        found.setdefault(str(value).removeprefix(PREFIX).removeprefix("SIG").lower(), value)
    return list(found.values())


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
