"""Which texts count as secrets, and what stands in their place: the same for the runtime, which masks logs, and for the
job's side, which masks job files, messages and plans."""

from __future__ import annotations

MASKED = "******"
SHORTEST = 8  # bytes of a value that is masked; shorter ones turn up by chance
SHORTEST_LINE = 16  # bytes of a line of a longer value, blanks around it left out; many shorter ones are common words
# Characters of a value that is taken out of what kedge itself writes, where a hit by chance costs little.
SHORTEST_IN_OWN_TEXT = 4
