"""Kubernetes' strategic merge patch, for pods.

As in JSON merge patch, mappings are merged, null removes a key, and lists are replaced; but lists of the API that are
mappings in all but form, such as `containers`, are merged by a key of their items. Directives: `$patch: replace` or
`delete` in a mapping or in an item of such a list, `$retainKeys`, `$deleteFromPrimitiveList/KEY` and
`$setElementOrder/KEY`. The facts are in the API's description: `x-kubernetes-patch-strategy` and
`x-kubernetes-patch-merge-key` (https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# List -> the key of its items. No list of another meaning in a pod has one of these names.
MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "schedulingGates": "name",
    "resourceClaims": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "ownerReferences": "uid",
}
MERGED_PRIMITIVES = ("finalizers",)
_PATCH, _RETAIN = "$patch", "$retainKeys"
_DELETE_FROM, _ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"
_REPLACE, _DELETE, _MERGE = "replace", "delete", "merge"


class BadPatch(ValueError):
    """A patch that Kubernetes would refuse. The message says where and why."""


def merged(original: Mapping[str, Any], patch: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """The result of a patch. Neither argument is changed, but the result shares parts with them. `where` is the path
    of the two, for messages. BadPatch."""
    directive = patch.get(_PATCH, _MERGE)
    if directive == _DELETE:
        return {}
    if directive == _REPLACE:
        return {key: value for key, value in patch.items() if key != _PATCH}
    if directive != _MERGE:
        raise BadPatch(f"{where or 'the patch'}: {_PATCH} is replace, delete or merge, not {directive!r}")
    kept = _retained(original, patch, where)
    for key, value in patch.items():
        if key.startswith("$"):
            _check_directive(key, where)
        elif value is None:
            kept.pop(key, None)
        else:
            kept[key] = _value(key, kept.get(key), value, f"{where}.{key}".lstrip("."))
    for key, values in patch.items():
        if key.startswith(_DELETE_FROM):
            name = key.removeprefix(_DELETE_FROM)
            kept[name] = [each for each in kept.get(name, []) if each not in values]
        elif key.startswith(_ORDER):
            name = key.removeprefix(_ORDER)
            kept[name] = _ordered(name, kept.get(name, []), values)
    return kept


def _check_directive(key: str, where: str) -> None:
    if key not in (_PATCH, _RETAIN) and not key.startswith((_DELETE_FROM, _ORDER)):
        raise BadPatch(f"{where or 'the patch'}: there is no directive {key}")


def _retained(original: Mapping[str, Any], patch: Mapping[str, Any], where: str) -> dict[str, Any]:
    if _RETAIN not in patch:
        return dict(original)
    retained = patch[_RETAIN]
    given = {key for key, value in patch.items() if not key.startswith("$") and value is not None}
    if not isinstance(retained, list) or not given <= set(retained):
        raise BadPatch(f"{where or 'the patch'}: {_RETAIN} must list all keys that the patch sets")
    return {key: value for key, value in original.items() if key in retained}


def _value(name: str, original: Any, patch: Any, where: str) -> Any:
    """What a key has after the patch, whose value is not null."""
    if isinstance(patch, Mapping):
        return merged(original if isinstance(original, Mapping) else {}, patch, where)
    if isinstance(patch, list):
        had = original if isinstance(original, list) else []
        if name in MERGE_KEYS:
            return _items(had, patch, MERGE_KEYS[name], where)
        if name in MERGED_PRIMITIVES:
            return [*had, *(each for each in patch if each not in had)]
    return patch


def _items(original: list[Any], patch: list[Any], key: str, where: str) -> list[Any]:
    """A list that is merged by a key of its items."""
    checked = list(_checked(patch, key, where))
    replaces = any(item.get(_PATCH) == _REPLACE for item in checked)
    found = [] if replaces else list(original)
    for item in checked:
        directive, value = item.get(_PATCH), item.get(key)
        if directive == _DELETE:
            found = [each for each in found if each.get(key) != value]
        elif directive is None:
            place = f"{where}[{value}]"
            at = next((n for n, each in enumerate(found) if each.get(key) == value), len(found))
            found[at : at + 1] = [merged(found[at] if at < len(found) else {}, item, place)]
    return found


def _checked(patch: list[Any], key: str, where: str) -> Iterator[Mapping[str, Any]]:
    for item in patch:
        if not isinstance(item, Mapping):
            raise BadPatch(f"{where}: its items are mappings")
        directive = item.get(_PATCH)
        if directive not in (None, _REPLACE, _DELETE):
            raise BadPatch(f"{where}: {_PATCH} of an item is replace or delete, not {directive!r}")
        if directive != _REPLACE and key not in item:
            raise BadPatch(f"{where}: an item has no {key}, by which these are merged")
        yield item


def _ordered(name: str, items: list[Any], order: list[Any]) -> list[Any]:
    """The items in the order of the directive; those that it does not name stand where they stood between others."""
    key = MERGE_KEYS.get(name)
    wanted = [each.get(key) if key and isinstance(each, Mapping) else each for each in order]
    names = [item.get(key) if key else item for item in items]
    listed = iter(sorted((n for n, value in enumerate(names) if value in wanted), key=lambda n: wanted.index(names[n])))
    return [items[next(listed)] if value in wanted else items[n] for n, value in enumerate(names)]
