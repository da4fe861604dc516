"""The part of re2 that works on bytes. Its Python side loads functools and collections, which takes longer than loading
RE2 itself, and makes a generator and six calls of each search; here it is one call of RE2."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re2 import Options as Options
    from re2 import Set as Set
    from re2 import compile as compile
    from re2 import error as error
    from re2 import escape as escape
else:
    import _frozen_importlib as importing
    import sys
    from _frozen_importlib_external import PathFinder

    def _compiled_part():
        """The module re2._re2, without re2 itself. The model, if it is loaded, too, uses the same one."""
        name = "re2._re2"
        if name not in sys.modules:
            package = PathFinder.find_spec("re2")
            spec = package and PathFinder.find_spec(name, package.submodule_search_locations)
            if not spec:
                raise ModuleNotFoundError("No module named 're2'", name="re2")
            importing._load(spec)
        return sys.modules[name]

    _re2 = _compiled_part()
    _NONE = (-1, -1)

    def compile(pattern, options):
        return _Regexp(pattern, options)

    class _Regexp:
        __slots__ = ("_re2", "_search", "groupindex", "groups", "pattern")

        def __init__(self, pattern, options):
            self.pattern = pattern
            self._re2 = _re2.RE2(pattern, options)
            if not self._re2.ok():
                raise error(self._re2.error())
            self._search = self._re2.Match
            self.groups = self._re2.NumberOfCapturingGroups()
            self.groupindex = dict(self._re2.NamedCapturingGroups()) if self.groups else {}

        def search(self, text, pos=0, endpos=None):
            size = len(text)
            endpos = size if endpos is None or endpos > size else endpos
            pos = size if pos > size else pos
            spans = self._search(_ANYWHERE, text, pos, endpos) if pos <= endpos else (_NONE,)
            return _Match(self, text, spans) if spans[0] != _NONE else None

        def match(self, text):
            spans = self._search(_START, text, 0, len(text))
            return _Match(self, text, spans) if spans[0] != _NONE else None

        def finditer(self, text):
            pos, size = 0, len(text)
            while pos <= size:
                spans = self._search(_ANYWHERE, text, pos, size)
                if spans[0] == _NONE:
                    return
                yield _Match(self, text, spans)
                pos = spans[0][1] + (pos == spans[0][1])  # on after an empty match

    class _Match:
        __slots__ = ("_spans", "_text", "re")

        def __init__(self, regexp, text, spans):
            self.re, self._text, self._spans = regexp, text, spans

        def __getitem__(self, group):
            start, end = self._spans[group if isinstance(group, int) else self.re.groupindex[group]]
            return self._text[start:end] if start >= 0 else None

        def group(self, group=0):
            return self[group]

        def groups(self):
            return tuple(self[number] for number in range(1, len(self._spans)))

        def groupdict(self):
            return {name: self[number] for name, number in self.re.groupindex.items()}

        def start(self, group=0):
            return self._spans[group][0]

        def end(self, group=0):
            return self._spans[group][1]

        def span(self, group=0):
            return self._spans[group]

        @property
        def lastindex(self):
            """The group that ends last; of those that end there, the outermost."""
            last = max(range(1, len(self._spans)), key=lambda group: self._spans[group][1], default=None)
            return last if last and self._spans[last][1] >= 0 else None

        @property
        def lastgroup(self):
            last = self.lastindex
            return next((name for name, number in self.re.groupindex.items() if number == last), None)

    class Set:
        def __init__(self, options):
            self._set = _re2.Set(_ANYWHERE, options)

        @classmethod
        def SearchSet(cls, options):  # noqa: N802  (as its model)
            return cls(options)

        def Add(self, pattern):  # noqa: N802
            if self._set.Add(pattern) < 0:
                raise error(f"failed to add {pattern!r} to Set")

        def Compile(self):  # noqa: N802
            if not self._set.Compile():
                raise error("failed to compile Set")

        def Match(self, text):  # noqa: N802
            return self._set.Match(text) or None

    try:
        error, Options = _re2.Error, _re2.RE2.Options
        escape = _re2.RE2.QuoteMeta
        _ANYWHERE, _START = _re2.RE2.Anchor.UNANCHORED, _re2.RE2.Anchor.ANCHOR_START
    except AttributeError:  # a version of RE2 with another inside
        from re2 import Options, Set, compile, error, escape  # noqa: F401  (for importers)
