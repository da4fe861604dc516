"""Replacing secrets in a stream of bytes, wherever the pieces of the stream happen to be cut.

Looking for hundreds of forms must cost little. So only every `stride`-th byte is looked at: whatever it is that stands
in the text, among its first bytes are `count` of those, one after the other in the sample, and there are at most
`stride` ways in which they can be. One matcher finds all ways of all forms at once; what it finds is compared in full.
"""

from __future__ import annotations

import importlib
import sys
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from kedge import masking
from kedge.runtime.logs.secret_forms import maskable

MASKED = masking.MASKED.encode()
_FEWEST, _MOST = 4, 5  # bytes of a sample that are compared: fewer are found too often by chance
_LARGEST_STRIDE = 8  # the rest of the work then costs more
_MUCH = 1 << 16  # bytes of samples from which on the matcher is worth loading
_SOME = 1 << 6  # bytes from which on it is worth calling
_OFTEN = 64  # matches in one sample, after which a plain loop is faster
_MATCHER_BYTES = 64 << 20  # at most, of program and automaton
_MOST_KEYS = 1 << 15  # above, making the matcher takes too long
_SLOW_SEC = 5e-7  # for a byte of a sample: the automaton does not fit into its memory, and a loop is faster
_TRIAL = 1 << 19  # bytes of samples after which that is judged

Table = dict[bytes, list[tuple[bytes, int]]]


def finder(values: Iterable[str], site: str | None = None) -> Finder | None:
    """What finds these secrets in all their forms; None if there is nothing to mask."""
    forms = maskable(values)
    return Finder(forms, site) if forms else None


class Finder:
    """Finds secrets in a text: whole ones, and one that the end of the text cuts off. `site` is a folder of installed
    packages where google-re2 may be; without it, long texts take longer."""

    def __init__(self, secrets: tuple[bytes, ...], site: str | None = None) -> None:
        shortest = min(map(len, secrets))
        self.stride = max(1, min(shortest // _FEWEST, _LARGEST_STRIDE))
        self.count = min(shortest // self.stride, _MOST)
        self._reach = self.stride * self.count  # a beginning of so many bytes shows in the sample
        self._secrets = sorted(secrets)
        self._table = self._ways()
        self._lengths = self._beginnings()
        self._site = site
        self._seen, self._spent = 0, 0.0  # bytes of samples, seconds of the matcher
        self._matcher: Any = None

    def find(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where a secret begins and ends; it ends after the end of `data` if that cuts it off. In no order."""
        for place in self._places(data[:: self.stride]):
            at = place * self.stride
            for secret, offset in self._table[data[at : at + self._span() : self.stride]]:
                start = at - offset
                if start >= 0 and data.startswith(secret[: len(data) - start], start):
                    yield start, start + len(secret)
        if data and (start := self._short_beginning(data)) < len(data):
            yield start, len(data) + 1

    def _span(self) -> int:
        return (self.count - 1) * self.stride + 1

    def _ways(self) -> Table:
        """The secrets by what a sample can hold of their beginnings, and where in the secret that stands."""
        table: Table = {}
        for secret in self._secrets:
            for offset in range(self.stride):
                key = secret[offset : offset + self._span() : self.stride]
                table.setdefault(key, []).append((secret, offset))
        return table

    def _beginnings(self) -> dict[int, list[int]]:
        """By byte, the lengths of the short beginnings that end with it, the longest first."""
        lengths: dict[int, set[int]] = {}
        for secret in self._secrets:
            for place, byte in enumerate(secret[: self._reach - 1]):
                lengths.setdefault(byte, set()).add(place + 1)
        return {byte: sorted(found, reverse=True) for byte, found in lengths.items()}

    def _short_beginning(self, data: bytes) -> int:
        """Where a beginning that is too short for the sample stands at the end; the end if there is none."""
        for length in self._lengths.get(data[-1], ()):
            tail = data[-length:]
            near = bisect_left(self._secrets, tail)
            if near < len(self._secrets) and self._secrets[near].startswith(tail):
                return len(data) - len(tail)
        return len(data)

    def _places(self, sample: bytes) -> Iterator[int]:
        """Where the sample holds a key of the table."""
        place, table, count = 0, self._table, self.count
        if len(sample) >= _SOME and self._load(sample):
            for _ in range(_OFTEN):
                found = self._search(sample, place)
                if found < 0:
                    return
                yield found
                place = found + 1
        yield from (at for at in range(place, len(sample) - count + 1) if sample[at : at + count] in table)

    def _search(self, sample: bytes, place: int) -> int:
        """The next place, -1 if there is none."""
        begun = time.thread_time()
        found = self._matcher.search(sample, place)
        self._spent += time.thread_time() - begun
        return found.start() if found else -1

    def _load(self, sample: bytes) -> bool:
        """Whether there is a matcher. It is made once there is much to look at, and left again if it is slow."""
        self._seen += len(sample)
        if self._matcher is None and self._seen >= _MUCH:
            self._matcher = _matcher(tuple(self._table), self._site) or False
            self._seen, self._spent = 0, 0.0
        if self._matcher and self._seen >= _TRIAL:
            self._matcher = self._matcher if self._spent < self._seen * _SLOW_SEC else False
            self._seen, self._spent = 0, 0.0
        return bool(self._matcher)


@lru_cache(maxsize=1)
def _matcher(keys: tuple[bytes, ...], site: str | None) -> Any:
    """The pattern that is any of `keys`; None where google-re2 is missing or refuses it, and of too many keys."""
    if len(keys) > _MOST_KEYS:
        return None
    if site and site not in sys.path:
        sys.path.append(site)
    try:
        re2 = importlib.import_module("re2")
    except ImportError:
        return None
    options = re2.Options()
    options.encoding, options.log_errors, options.max_mem = re2.Options.Encoding.LATIN1, False, _MATCHER_BYTES
    try:
        return re2.compile(b"|".join(b"".join(b"\\x%02x" % byte for byte in key) for key in keys), options)
    except re2.error:
        return None


class Held(NamedTuple):
    """The end of the text so far that may be the beginning of a secret. The first `masked` bytes of it belong to one
    that stands there already; None if not even its first byte follows one."""

    data: bytes = b""
    masked: int | None = None


class Mask:
    """Masks one stream: each run of bytes that belong to secrets becomes `******`. The result does not depend on how
    the stream is cut. A tail that may be the beginning of a secret is held back."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._held = Held()

    def feed(self, data: bytes) -> bytes:
        """The masked form of what can be told so far."""
        return self._masked(self._held.data + data if self._held.data else data, final=False)

    def finish(self) -> bytes:
        """What was held back, now that nothing follows."""
        return self._masked(self._held.data, final=True)

    def _masked(self, data: bytes, final: bool) -> bytes:
        found = sorted(self._finder.find(data))
        doubtful = len(data) if final else min((start for start, end in found if end > len(data)), default=len(data))
        done = self._held.masked
        result: list[bytes] = []
        for start, end in found:
            if start >= doubtful or end > len(data):
                continue
            if done is None or start > done:
                result += (data[done or 0 : start], MASKED)
                done = end
            done = max(done, end)
        result.append(data[done or 0 : doubtful])
        self._held = Held(data[doubtful:], done - doubtful if done is not None and done >= doubtful else None)
        return b"".join(result)


def masked(data: bytes, finder: Finder | None) -> bytes:
    """All of a text at once."""
    if not finder:
        return data
    mask = Mask(finder)
    return mask.feed(data) + mask.finish()
