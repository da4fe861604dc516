"""The scheduler's message about a pod that no node can take, as a sentence that says what to do.

0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {a: b}. preemption: ...
"""

from __future__ import annotations

import re

_MESSAGE = re.compile(r"\d+/(\d+) nodes are available: (.*)", re.DOTALL)
_NEXT = re.compile(r"[,.]\s+(?=\d+ )")
_PREEMPTION = re.compile(r"\.?\s+preemption: .*", re.DOTALL)
_ITEM = re.compile(r"(\d+) (.*)", re.DOTALL)
_TAINT = re.compile(r"taint \{([^:}]+):\s*([^}]*)\}")
_SHORT = re.compile(r"Insufficient (\S+)")
_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" not found')
_CORDONED = ("are closed for new pods", "have the site's administrator open them (kubectl uncordon)")
_SILENT = ("do not answer", "have the site's administrator look at them")
_PRESSED = ("are short of disk, memory or processes", "have the site's administrator look at them")
_TAINTS = {
    "node.kubernetes.io/unschedulable": _CORDONED,
    "node.kubernetes.io/unreachable": _SILENT,
    "node.kubernetes.io/not-ready": _SILENT,
    "node.kubernetes.io/disk-pressure": _PRESSED,
    "node.kubernetes.io/memory-pressure": _PRESSED,
    "node.kubernetes.io/pid-pressure": _PRESSED,
}
_VOLUME = "have the site's administrator look at its PersistentVolumeClaims (kubectl get pvc)"
_SELECTOR = "check --kubernetes node-selector and the site's pod-patch against the labels of the nodes"
_OTHERS = (
    (re.compile(r"were unschedulable"), *_CORDONED),
    (re.compile(r"were (?:not ready|unreachable)"), *_SILENT),
    (re.compile(r"Too many pods"), "hold as many pods as allowed", "wait until others end"),
    (re.compile(r"didn't match.*(?:node affinity|node selector)", re.I), "lack labels that it asks for", _SELECTOR),
    (re.compile(r"didn't (?:match|satisfy).*(?:affinity|topology)", re.I), "would break its rules about other pods",
     "check the site's pod-patch"),
    (re.compile(r"free ports"), "have its ports in use", "wait until others end"),
    (re.compile(r"unbound immediate PersistentVolumeClaims"), "find one of its volumes not bound yet", _VOLUME),
    (re.compile(r"volume node affinity|persistent volumes to bind"), "cannot reach one of its volumes", _VOLUME),
    (re.compile(r"max volume count"), "have as many volumes as allowed", "wait until others end"),
)  # fmt: skip
_NAMES = {"cpu": "CPU", "memory": "memory", "ephemeral-storage": "local disk"}


def sentence(message: str) -> str:
    """In words; the message itself where it is not understood."""
    found = _MESSAGE.match(_PREEMPTION.sub("", message.strip()))
    if not found:
        return message.strip().rstrip(".")
    all_nodes, problems, advice = int(found[1]), [], []
    for item in _NEXT.split(found[2].rstrip(". ")):
        parts = _ITEM.match(item)
        words, to_do = _problem(parts[2] if parts else item)
        problems.append(_counted(int(parts[1]), words) if parts else f"all {words}")
        if to_do and to_do not in advice:
            advice.append(to_do)
    nodes = (
        f"none of {all_nodes} nodes can" if all_nodes > 1 else "the only node cannot" if all_nodes else "no node can"
    )
    return "; ".join((f"{nodes} take it: {', '.join(problems)}", *advice))


def _counted(number: int, words: str) -> str:
    """`1 has …`, `2 have …`."""
    if number != 1:
        return f"{number} {words}"
    for many, one in (("have ", "has "), ("are ", "is "), ("do not ", "does not ")):
        if words.startswith(many):
            return f"1 {one}{words.removeprefix(many)}"
    verb, _, rest = words.partition(" ")
    known = {"hold": "holds", "lack": "lacks", "find": "finds"}
    return f"1 {known.get(verb, verb)} {rest}".rstrip()


def _problem(text: str) -> tuple[str, str]:
    """What keeps nodes from taking the pod, and what can be done."""
    if found := _TAINT.search(text):
        key, value = found[1].strip(), found[2].strip()
        taint = f"{key}={value}" if value else key
        return _TAINTS.get(key) or (
            f"have the taint {taint}, which it does not tolerate",
            "if it may run there, have the site add the taint to `tolerations`",
        )
    if found := _SHORT.search(text):
        name = _NAMES.get(found[1], found[1])
        return f"have too little {name} free", f"wait until others end, or ask for less {name}"
    if found := _CLAIM.search(text):
        return f"miss the PersistentVolumeClaim {found[1]}", "have it created, or take it out of the site's settings"
    for pattern, words, to_do in _OTHERS:
        if pattern.search(text):
            return words, to_do
    return text.removeprefix("node(s) "), ""
