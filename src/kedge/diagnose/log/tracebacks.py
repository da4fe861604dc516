"""Cuts Python tracebacks out of a log: plain, chained, groups, rich's boxes, with lines of other ranks between.

A Trace is one incident: its blocks are the exceptions of one chain, in the order of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kedge.diagnose.log import frames, notebooks
from kedge.diagnose.log.exceptions import telling
from kedge.diagnose.log.frames import Frame
from kedge.diagnose.log.lines import breaks_message
from kedge.diagnose.log.log_text import Log, LogLine
from kedge.diagnose.regex import regex

HEADER = b"Traceback (most recent call last)"
MOST = 200  # tracebacks: half from each end of the log
FRAME_LINES = 600
MESSAGE_LINES = 40
LINK_LINES = 6
INTRUDERS = 3

# Hydra's words for what an object raised that it made; the next line is that exception as repr() writes it.
CALL = b"Error in call to target '"
# `torch.OutOfMemoryError: …`, `KeyError: 'x'`, `AssertionError`, `ray.exceptions.RayTaskError(ValueError): …`,
# `ValueError('…')`.
_EXCEPTION = rb"^(?P<type>[A-Za-z_][\w.]*(?:\([\w.]+\))?)(?:: ?.*|\(.*\))?$"
# The first line of one that is no part of another's message.
_OTHERS = rb"^(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt)(?:: |$)"
# The rest of a frame's line that a terminal has wrapped.
_WRAPPED = rb"^\"[/<]|\", line(?: \d+)?(?:, in \S+)?\s*$|^\d+, in \S+\s*$|^(?:in )?<module>\s*$"
_RAISE = rb"^\s+raise ([A-Za-z_][\w.]*)\("
_NO_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_GUTTER = rb"^[ |+]*"
_DIRECT = b"was the direct cause of the following exception"
# Python's words for what a finalizer raised; the names of the threads in which wandb looks for news.
_IGNORED = rb"Exception ignored|^Thread (?:ChkStop|IntMsg|NetStat)Thr:$"
# Headers of what another process raised: of a data-loader worker, of a rank of torch.distributed.checkpoint.
_CARRIED = (b"Original Traceback", b"last): (RANK ")
# What those raise who run notebooks; what a cell raised stands in their message.
_OF_NOTEBOOKS = ("CellExecutionError", "PapermillExecutionError")
_DURING = b"During handling of the above exception"


class Block(NamedTuple):
    """One exception: its header, its frames, the lines of its message (the first names the type) and source lines.

    `link` says how it hangs together with the block before: "direct", "during", "wrapped" (that one only carries
    this one's text) or "" (none); "cut": the log begins inside it.
    """

    header: LogLine
    frames: tuple[Frame, ...]
    message: tuple[LogLine, ...]
    sources: tuple[LogLine, ...]
    link: str = ""

    @property
    def type(self) -> str:
        """The exception's type without its module, of a traceback that was cut off as its last `raise` says."""
        if not self.message:
            found = regex(_RAISE).search(self.sources[-1].body) if self.sources else None
        else:
            found = regex(_EXCEPTION).match(strip(self.message[0].body))
        return found.group(1).decode("latin-1").split("(")[0].rsplit(".", 1)[-1] if found else ""

    @property
    def remote(self) -> bool:
        """Whether a client of remote services raised it, who has no peers in this job."""
        return any(frame.of_client for frame in self.frames)

    @property
    def end(self) -> int:
        """Where it ends in the log."""
        return max([self.header.end, *(line.end for line in self.message[:1] + self.sources[-1:])])


class Trace(NamedTuple):
    """A chain of exceptions that one process printed.

    `ignored`: Python itself says that it goes on; `threaded`: it ended a thread, which need not end the process.
    """

    blocks: tuple[Block, ...]
    ignored: bool = False
    threaded: bool = False

    @property
    def start(self) -> int:
        """Where it starts in the log."""
        return self.blocks[0].header.start

    @property
    def end(self) -> int:
        """Where it ends in the log, without the further lines of the last message."""
        return self.blocks[-1].end

    @property
    def rank(self) -> str:
        """Who printed it."""
        return self.blocks[0].header.rank

    @property
    def uncaught(self) -> bool:
        """Whether it reaches up to the main program: somebody who catches an exception prints it from where he is."""
        return not self.threaded and any(
            block.link == "cut" or any(f.outermost for f in block.frames[:3]) for block in self.blocks
        )

    @property
    def main(self) -> Frame | None:
        """Where the main program was, if it gets there."""
        return next((frame for block in self.blocks for frame in block.frames if frame.where == "<module>"), None)

    @property
    def decisive(self) -> Block:
        """What tells most without any rule: the first cause, but the last of `during handling` unless it is vague."""
        block, *others = [one for one in self.blocks if one.type] or self.blocks  # the log may end inside the last
        for following in others:
            vague = following.link == "during" and following.type == "RuntimeError" and telling(block.type)
            if not vague and (following.link != "direct" or not block.type):
                block = following
        return block

    def frame(self, block: Block) -> str:
        """The last frame in the user's own code, of this block or else of any."""
        for one in (block, *reversed(self.blocks)):
            for frame in reversed(one.frames):
                if frame.users:
                    return str(frame)
        return ""


def strip(body: bytes) -> bytes:
    """A line without the gutter of an exception group."""
    return body[regex(_GUTTER).match(body).end() :] if body[:1] in b" |+" and b"|" in body[:12] else body.rstrip()


def find(log: Log) -> list[Trace]:
    """The tracebacks of a log, in its order."""
    headers = [log.line(offset) for offset in _headers(log.text, HEADER) if log.text[offset - 4 : offset] != b"C++ "]
    calls = [line for line in map(log.line, _headers(log.text, CALL)) if line.body.startswith(CALL)]
    headers = sorted([*headers, *calls], key=lambda line: line.start)
    blocks = [block for block in (_cut(log, headers), *(_block(log, header) for header in headers)) if block]
    chains: list[list[Block]] = []
    for block in _apart(blocks):
        link = _link(log, chains[-1][-1], block) if chains else None
        if link is None:
            chains.append([block])
        else:
            chains[-1].append(block._replace(link=link))
    return [Trace(tuple(chain), _ignored(log, chain[0]), _threaded(log, chain[0])) for chain in chains]


def _apart(blocks: list[Block]) -> Iterator[Block]:
    """Each exception by itself where processes write into each other: all headers come first, then all messages."""
    for before, block in zip([None, *blocks], blocks, strict=False):
        own = block.message
        mixed = before and not before.message and before.header.rank == block.header.rank
        others = [n for n, line in enumerate(own) if n and regex(_OTHERS).match(line.body)] if mixed else []
        yield block._replace(message=own[: others[0]] if others else own)
        for start, end in zip(others, [*others[1:], None], strict=False):
            yield block._replace(header=own[start], message=own[start:end])


def _headers(text: bytes, header: bytes) -> list[int]:
    first: list[int] = []
    last: list[int] = []
    at = text.find(header)
    while at >= 0 and len(first) < MOST // 2:
        first.append(at)
        at = text.find(header, at + 1)
    if at >= 0:
        at = text.rfind(header)
        while at > first[-1] and len(last) < MOST // 2:
            last.append(at)
            at = text.rfind(header, 0, at)
    return first + last[::-1]


def _cut(log: Log, headers: list[LogLine]) -> Block | None:
    """The traceback whose header is lost, because the log begins inside it."""
    first = log.line(0)
    block = _block(log, first)
    complete = not block.frames or not block.message or (headers and headers[0].start <= block.end)
    return None if complete else block._replace(link="cut")


def _block(log: Log, header: LogLine) -> Block:
    if kind := notebooks.kind(header.body):
        return _cells(log, header, kind)
    own = _own(header, [line for line in log.after(header, FRAME_LINES) if line.rank == header.rank])
    found: list[Frame] = []
    sources: list[LogLine] = []
    count = 0
    for line in own:
        body = line.body
        if HEADER in body or not _inside(body, bool(found or sources)):
            break
        count += 1
        if frame := frames.read(body):
            found.append(frame)
        elif body.strip():
            sources.append(line)
    count += _strange(own[count : count + INTRUDERS + 1]) if found else 0
    if own[count : count + 1] and CALL in own[count].body:
        count += 1
    return Block(header, tuple(found), tuple(_message(own[count:], bool(header.time))), tuple(sources))


def _cells(log: Log, header: LogLine, kind: bytes) -> Block:
    own = [line for line in log.after(header, FRAME_LINES) if line.rank == header.rank]
    found = notebooks.read(kind, own)
    return Block(header, found.frames, tuple(_message(own[found.message :], bool(header.time))), found.sources)


def _strange(following: list[LogLine]) -> int:
    """How many lines of other processes stand between the frames and the message."""
    for count, line in enumerate(following):
        if HEADER in line.body or (not count and regex(_EXCEPTION).match(strip(line.body))):
            return 0
        if regex(_OTHERS).match(line.body):
            return count
    return 0


def _own(header: LogLine, following: list[LogLine]) -> list[LogLine]:
    """The lines that follow, without what stands before the header as well: a logger's prefix, a host, a gutter."""
    prefix = header.body[: max(0, header.body.find(b"Traceback"))].removesuffix(b"Exception Group ")
    length, shape = len(prefix), prefix.translate(_NO_DIGITS)
    if not prefix.strip(b" |+"):
        return [_without(line, length) if not line.body[:length].strip(b" |+") else line for line in following]
    same = [line for line in following if line.body[:length].translate(_NO_DIGITS) == shape]
    if not same or same[0] is not following[0]:  # text that somebody else left on the header's line
        return following
    return [_without(line, length) for line in same]


def _without(line: LogLine, length: int) -> LogLine:
    return line._replace(body=line.body[length:])


def _inside(body: bytes, started: bool) -> bool:
    """Whether a line belongs to the frames and not yet to the message."""
    if body[:1] in (b" ", b"\t"):
        return True
    if body[:3] in (b"\xe2\x94\x82", b"\xe2\x95\xb0"):  # rich's box
        return True
    if started and regex(_WRAPPED).search(body):
        return True
    return not body.strip() and not started


def _message(own: list[LogLine], timed: bool) -> Iterator[LogLine]:
    for count, line in enumerate(own[:MESSAGE_LINES]):
        # `BackendCompilerFailed: backend='inductor' raised:`, and what it raised on the next line
        told = count == 1 and own[0].body.rstrip().endswith(b":") and regex(_OTHERS).match(line.body)
        if count and (HEADER in line.body or (breaks_message(line, timed) and not told)):
            return
        if not count and not regex(_EXCEPTION).match(strip(line.body)):
            return
        yield line


def _link(log: Log, block: Block, following: Block) -> str | None:
    """How a block follows from the one before; None if it does not."""
    if following.header.rank != block.header.rank:
        return None
    if any(words in following.header.body for words in _CARRIED):
        return "wrapped"
    between = b""
    for line in log.before(following.header, LINK_LINES):
        if line.start <= block.header.start:
            break
        between += line.body + b"\n"
    if _DIRECT in between:
        return "direct"
    if _DURING in between:
        return "during"
    if notebooks.kind(following.header.body) and block.type in _OF_NOTEBOOKS:
        return "wrapped"
    nested = b"terminated with the following error" in between or strip(following.header.body) != following.header.body
    return "wrapped" if nested and block.message and following.header.start - block.end < 2000 else None


def _threaded(log: Log, block: Block) -> bool:
    return any(line.body.startswith(b"Exception in thread ") for line in log.before(block.header, 1))


def _ignored(log: Log, block: Block) -> bool:
    return any(regex(_IGNORED).search(line.body) for line in log.before(block.header, 2))
