"""Finding Python tracebacks in a log: plain, chained, exception groups, rich's boxes, mixed with lines of other ranks.

A Trace is one incident: its blocks are the exceptions of one chain, in the order of the log.
"""

from __future__ import annotations

from kedge.diagnose.log import frames, notebooks
from kedge.diagnose.log.exceptions import is_specific
from kedge.diagnose.log.frames import Frame
from kedge.diagnose.log.lines import breaks_message
from kedge.diagnose.log.log_text import Log, LogLine
from kedge.diagnose.regex import find as find_literal
from kedge.diagnose.regex import regex
from kedge.light.types import Iterator, NamedTuple

HEADER = b"Traceback (most recent call last)"
MAX_TRACEBACKS = 200  # half of them from each end of the log
FRAME_LINES = 600
MESSAGE_LINES = 40
LINK_LINES = 6
INTRUDERS = 3

# Hydra's message for an exception from an object that it creates; the next line is that exception's repr().
CALL = b"Error in call to target '"
# `torch.OutOfMemoryError: …`, `KeyError: 'x'`, `AssertionError`, `ray.exceptions.RayTaskError(ValueError): …`,
# `ValueError('…')`.
_EXCEPTION = rb"^(?P<type>[A-Za-z_][\w.]*(?:\([\w.]+\))?)(?:: ?.*|\(.*\))?$"
# The first line of an exception that is not part of another one's message.
_OTHERS = rb"^(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt)(?:: |$)"
# The rest of a frame's line after a terminal has wrapped it.
_WRAPPED = rb"^\"[/<]|\", line(?: \d+)?(?:, in \S+)?\s*$|^\d+, in \S+\s*$|^(?:in )?<module>\s*$"
_RAISE = rb"^\s+raise ([A-Za-z_][\w.]*)\("
_NO_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_GUTTER = rb"^[ |+]*"
_DIRECT = b"was the direct cause of the following exception"
# Python's message for an exception in a finalizer; the names of wandb's polling threads.
_IGNORED = rb"Exception ignored|^Thread (?:ChkStop|IntMsg|NetStat)Thr:$"
# Headers of exceptions from another process: a data-loader worker, a rank of torch.distributed.checkpoint.
_CARRIED = (b"Original Traceback", b"last): (RANK ")
# Exceptions of programs that run notebooks; the exception of the cell is in their message.
_OF_NOTEBOOKS = ("CellExecutionError", "PapermillExecutionError")
_DURING = b"During handling of the above exception"


class Block(NamedTuple):
    """One exception: its header, its frames, the lines of its message (the first names the type) and source lines.

    `link` is the relation to the block before: "direct", "during", "wrapped" (that one only contains this one's text)
    or "" (none). "cut" means that the log begins inside this block.
    """

    header: LogLine
    frames: tuple[Frame, ...]
    message: tuple[LogLine, ...]
    sources: tuple[LogLine, ...]
    link: str = ""

    @property
    def type(self) -> str:
        """The exception's type without its module. For a traceback that was cut off, the type in its last `raise`."""
        if not self.message:
            found = regex(_RAISE).search(self.sources[-1].body) if self.sources else None
        else:
            found = regex(_EXCEPTION).match(strip(self.message[0].body))
        return found.group(1).decode("latin-1").split("(")[0].rsplit(".", 1)[-1] if found else ""

    @property
    def remote(self) -> bool:
        """Whether a client of a remote service raised it; such a service is not a peer in this job."""
        return any(frame.of_client for frame in self.frames)

    @property
    def end(self) -> int:
        """Where it ends in the log."""
        return max([self.header.end, *(line.end for line in self.message[:1] + self.sources[-1:])])


class Trace(NamedTuple):
    """A chain of exceptions that one process printed.

    `ignored`: Python itself reports that it continues; `threaded`: it ended a thread, which need not end the process.
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
        """The rank that printed it."""
        return self.blocks[0].header.rank

    @property
    def uncaught(self) -> bool:
        """Whether it reaches the main program: the traceback of a caught exception starts where it was caught."""
        return not self.threaded and any(
            block.link == "cut" or any(f.outermost for f in block.frames[:3]) for block in self.blocks
        )

    @property
    def main(self) -> Frame | None:
        """The frame of the main program, if the traceback reaches it."""
        return next((frame for block in self.blocks for frame in block.frames if frame.where == "<module>"), None)

    @property
    def decisive(self) -> Block:
        """The most informative block without any rule: the first cause, but the last one of `during handling` unless it
        is unspecific."""
        block, *others = [one for one in self.blocks if one.type] or self.blocks  # the log may end inside the last
        for following in others:
            vague = following.link == "during" and following.type == "RuntimeError" and is_specific(block.type)
            if not vague and (following.link != "direct" or not block.type):
                block = following
        return block

    def frame(self, block: Block) -> str:
        """The last frame in the user's own code: of this block, or else of any block."""
        for one in (block, *reversed(self.blocks)):
            for frame in reversed(one.frames):
                if frame.users:
                    return str(frame)
        return ""


def strip(body: bytes) -> bytes:
    """A line without the gutter of an exception group."""
    return body[regex(_GUTTER).match(body).end() :] if body[:1] in b" |+" and b"|" in body[:12] else body.rstrip()


def find(log: Log) -> list[Trace]:
    """The tracebacks of a log, in order."""
    headers = [log.line(offset) for offset in _headers(log.text, HEADER) if log.text[offset - 4 : offset] != b"C++ "]
    calls = [line for line in map(log.line, _headers(log.text, CALL)) if line.body.startswith(CALL)]
    headers = sorted([*headers, *calls], key=lambda line: line.start)
    blocks = [block for block in (_cut(log, headers), *(_block(log, header) for header in headers)) if block]
    chains: list[list[Block]] = []
    for block in _separated(blocks):
        link = _link(log, chains[-1][-1], block) if chains else None
        if link is None:
            chains.append([block])
        else:
            chains[-1].append(block._replace(link=link))
    return [Trace(tuple(chain), _ignored(log, chain[0]), _threaded(log, chain[0])) for chain in chains]


def _separated(blocks: list[Block]) -> Iterator[Block]:
    """Separate the exceptions of processes that write at the same time: all headers come first, then all messages."""
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
    at = find_literal(header, text)
    while at >= 0 and len(first) < MAX_TRACEBACKS // 2:
        first.append(at)
        at = find_literal(header, text, at + 1)
    if at >= 0:
        at = text.rfind(header)
        while at > first[-1] and len(last) < MAX_TRACEBACKS // 2:
            last.append(at)
            at = text.rfind(header, 0, at)
    return first + last[::-1]


def _cut(log: Log, headers: list[LogLine]) -> Block | None:
    """The traceback whose header is lost because the log begins inside it."""
    first = log.line(0)
    following = next((line for line in log.after(first, FRAME_LINES) if line.rank == first.rank), None)
    if not notebooks.kind(first.body) and (following is None or not _inside(following.body, False)):
        return None  # without reading more of it
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
    count += _foreign_lines(own[count : count + INTRUDERS + 1]) if found else 0
    if own[count : count + 1] and CALL in own[count].body:
        count += 1
    return Block(header, tuple(found), tuple(_message(own[count:], bool(header.time))), tuple(sources))


def _cells(log: Log, header: LogLine, kind: bytes) -> Block:
    own = [line for line in log.after(header, FRAME_LINES) if line.rank == header.rank]
    found = notebooks.read(kind, own)
    return Block(header, found.frames, tuple(_message(own[found.message :], bool(header.time))), found.sources)


def _foreign_lines(following: list[LogLine]) -> int:
    """The number of lines of other processes between the frames and the message."""
    for count, line in enumerate(following):
        if HEADER in line.body or (not count and regex(_EXCEPTION).match(strip(line.body))):
            return 0
        if regex(_OTHERS).match(line.body):
            return count
    return 0


def _own(header: LogLine, following: list[LogLine]) -> list[LogLine]:
    """The lines that follow, without the prefix that the header has too: a logger's prefix, a host, a gutter."""
    prefix = header.body[: max(0, header.body.find(b"Traceback"))].removesuffix(b"Exception Group ")
    length, shape = len(prefix), prefix.translate(_NO_DIGITS)
    if not prefix.strip(b" |+"):
        return [_without(line, length) if not line.body[:length].strip(b" |+") else line for line in following]
    same = [line for line in following if line.body[:length].translate(_NO_DIGITS) == shape]
    if not same or same[0] is not following[0]:  # the prefix is text of another process on the header's line
        return following
    return [_without(line, length) for line in same]


def _without(line: LogLine, length: int) -> LogLine:
    return line._replace(body=line.body[length:])


def _inside(body: bytes, started: bool) -> bool:
    """Whether a line belongs to the frames, not to the message."""
    if body[:1] in (b" ", b"\t"):
        return True
    if body[:3] in (b"\xe2\x94\x82", b"\xe2\x95\xb0"):  # rich's box
        return True
    if started and regex(_WRAPPED).search(body):
        return True
    return not body.strip() and not started


def _message(own: list[LogLine], timed: bool) -> Iterator[LogLine]:
    for count, line in enumerate(own[:MESSAGE_LINES]):
        # `BackendCompilerFailed: backend='inductor' raised:`, with the exception it raised on the next line
        continued = count == 1 and own[0].body.rstrip().endswith(b":") and regex(_OTHERS).match(line.body)
        if count and (HEADER in line.body or (breaks_message(line, timed) and not continued)):
            return
        if not count and not regex(_EXCEPTION).match(strip(line.body)):
            return
        yield line


def _link(log: Log, block: Block, following: Block) -> str | None:
    """The relation of a block to the one before; None if there is none."""
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
