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
        if key.startswith((_DELETE_FROM, _ORDER)) and not isinstance(values, list):
            raise BadPatch(f"{where or 'the patch'}: {key} must be a list")
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
        if name in MERGED_PRIMITIVES and all(isinstance(each, str) for each in patch):
            return _sorted({each: each for each in [*had, *patch]}, patch, had)
    return patch


def _items(original: list[Any], patch: list[Any], key: str, where: str) -> list[Any]:
    """A list that is merged by a key of its items."""
    checked = list(_checked(patch, key, where))
    if any(item.get(_PATCH) == _REPLACE for item in checked):
        return [merged({}, item, where) for item in checked if _PATCH not in item]
    found = {item.get(key): item for item in original}
    for item in checked:
        if item.get(_PATCH) == _DELETE:
            found.pop(item[key], None)
        else:
            found[item[key]] = merged(found.get(item[key], {}), item, f"{where}[{item[key]}]")
    return _sorted(found, [item[key] for item in checked], [item.get(key) for item in original])


def _sorted(items: Mapping[Any, Any], patch: list[Any], original: list[Any]) -> list[Any]:
    """Items by key in the order of the server: those of the patch in its order; the others in theirs, each before the
    next of the patch only if it stood before it in the original."""
    others = [key for key in original if key in items and key not in patch]
    found = []
    for key in (key for key in patch if key in items):
        while others and key in original and original.index(others[0]) < original.index(key):
            found.append(items[others.pop(0)])
        found.append(items[key])
    return [*found, *(items[key] for key in others)]


def _checked(patch: list[Any], key: str, where: str) -> Iterator[Mapping[str, Any]]:
    for item in patch:
        if not isinstance(item, Mapping):
            raise BadPatch(f"{where}: its items are mappings")
        directive = item.get(_PATCH)
        if directive not in (None, _REPLACE, _DELETE):
            raise BadPatch(f"{where}: {_PATCH} of an item is replace or delete, not {directive!r}")
        if directive != _REPLACE and not isinstance(item.get(key), str | int):
            raise BadPatch(f"{where}: an item has no {key}, by which these are merged")
        yield item


def _ordered(name: str, items: list[Any], order: list[Any]) -> list[Any]:
    """The items in the order of the directive; those that it does not name stand where they stood between others."""
    key = MERGE_KEYS.get(name)
    wanted = [each.get(key) if key and isinstance(each, Mapping) else each for each in order]
    found = {item.get(key) if key else item: item for item in items}
    return _sorted(found, wanted, [*found])
