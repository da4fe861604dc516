"""What kedge renders, judged by a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kedge.engines.kubernetes.objects import strategic_merge

from .cluster import Cluster

GOLDEN = Path(__file__).parents[1] / "engines" / "kubernetes" / "golden"
POD = "io.k8s.api.core.v1.Pod"


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.yaml")))
def test_the_server_takes_what_kedge_plan_shows(undisturbed: Cluster, name: str) -> None:
    documents = [*yaml.safe_load_all((GOLDEN / f"{name}.yaml").read_text())]
    for each in documents:
        if each["kind"] == "Pod":  # a priority class is an object of the whole cluster
            each["spec"].pop("priorityClassName", None)
    text = yaml.safe_dump_all(documents)
    said = undisturbed.kubectl(
        "apply", "--dry-run=server", "--validate=true", "--filename=-", namespace="default", given=text
    )
    assert said.count("(server dry run)") == len(documents)


def test_lists_of_pods_are_merged_by_the_keys_that_the_server_names(undisturbed: Cluster) -> None:
    definitions = json.loads(undisturbed.kubectl("get", "--raw", "/openapi/v2"))["definitions"]
    found = dict(_merged_lists(definitions, POD, set()))
    keys = {name: key for name, key in found.items() if key and name not in ("conditions", "podIPs", "hostIPs")}
    assert keys.items() <= strategic_merge.MERGE_KEYS.items()
    assert {name for name, key in found.items() if not key} == set(strategic_merge.MERGED_PRIMITIVES)


def _merged_lists(definitions: dict[str, Any], name: str, seen: set[str]) -> Iterator[tuple[str, str | None]]:
    """The lists in an object whose strategy is to merge, with the key of their items, if these are objects."""
    if name in seen:
        return
    seen.add(name)
    for key, schema in definitions[name].get("properties", {}).items():
        is_list = schema.get("type") == "array"
        if is_list and "merge" in schema.get("x-kubernetes-patch-strategy", ""):
            yield key, schema.get("x-kubernetes-patch-merge-key")
        for part in (schema, schema.get("items", {}), schema.get("additionalProperties", {})):
            if isinstance(part, dict) and (reference := part.get("$ref")):
                yield from _merged_lists(definitions, reference.rpartition("/")[2], seen)
