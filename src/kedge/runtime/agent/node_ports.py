"""The ports of the task on its node: taken when the controller asks, and held until the supervisor holds them."""

from __future__ import annotations

from kedge.claims import ports
from kedge.claims.locks import Claims
from kedge.claims.ports import HeldPort
from kedge.light.contextlib import suppress
from kedge.light.types import Mapping

Ports = dict[str, list[int]]


class NodePorts:
    """The ports of one task, by label; claims on them last as long as this or a supervisor that has inherited them."""

    def __init__(self) -> None:
        self._claims = Claims()
        self._held: list[HeldPort] = []

    def reserve(self, counts: Mapping[str, int]) -> Ports:
        """Take as many free ports as are wanted for each label, instead of all that were taken before. CannotRun."""
        self.release()
        self._claims = Claims()
        self._held = ports.reserve(sum(counts.values()), self._claims)
        numbers = iter([held.number for held in self._held])
        return {label: [next(numbers) for _ in range(count)] for label, count in counts.items()}

    def hold_again(self, taken: Ports) -> None:
        """Hold ports that were taken earlier, unless another process has taken them."""
        missing = {number for numbers in taken.values() for number in numbers} - {held.number for held in self._held}
        for number in sorted(missing):
            self._claims.take(number)
            with suppress(OSError):  # the task then finds out itself
                if held := ports.hold(number):
                    self._held.append(held)

    @property
    def holds(self) -> list[int]:
        """The descriptors that hold the ports."""
        return [held.fileno() for held in self._held]

    @property
    def locks(self) -> list[int]:
        """Descriptors that mark the ports as taken as long as any process has them open."""
        return [] if self._claims.fd is None else [self._claims.fd]

    def hand_over(self) -> None:
        """Let a supervisor alone hold the ports. The claims stay."""
        for held in self._held:
            held.close()
        self._held = []

    def release(self) -> None:
        """Release everything."""
        self.hand_over()
        self._claims.close()
