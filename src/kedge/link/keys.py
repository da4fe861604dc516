"""The keys of a run's link: the controller's certificate, and who may speak to it."""

from __future__ import annotations

from kedge.light.types import Any, NamedTuple


class LinkKeys(NamedTuple):
    """`certificate` and `key` are the controller's, as PEM; agents accept this certificate only. The tokens of the
    tasks are made from `token_key`; `owner` is the token of the user's own commands. The last two are hexadecimal."""

    certificate: str
    key: str
    token_key: str
    owner: str

    def to_json(self) -> dict[str, Any]:
        """The content of link.json."""
        return self._asdict()

    @classmethod
    def from_json(cls, data: Any) -> LinkKeys:
        """The inverse of `to_json`; ignores other keys. ValueError."""
        if not isinstance(data, dict) or not all(isinstance(data.get(name), str) for name in cls._fields):
            raise ValueError("it does not hold the keys of a link")
        return cls(**{name: data[name] for name in cls._fields})


def task_token(keys: LinkKeys, attempt: int, role: str, index: int, task_attempt: int = 0) -> str:
    """The token of one task in one job attempt, hexadecimal: who has it can speak for this task and for no other.
    `task_attempt` is the one for which its agent was launched, see AgentOrders."""
    import hmac  # agents do not need it

    later = f"/{task_attempt}" if task_attempt else ""
    name = f"{attempt}{later}/{role}:{index}".encode("utf-8", "surrogatepass")
    return hmac.new(bytes.fromhex(keys.token_key), name, "sha256").hexdigest()
