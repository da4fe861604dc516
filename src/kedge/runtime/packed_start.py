"""Starts the supervisor from one file that holds this program and all modules that it needs (kedge.packed_runtime makes
it): `python -I -S runtime.pyc SPEC_FILE [options]`.

Looking up and opening each module in its folder takes three times as long as loading it: a fifth of the start. Modules
that are not in the file are imported from the package's folder.
"""

import gc
import marshal
import os
import sys
from _frozen_importlib import ModuleSpec  # importlib.machinery would be one more module

# The header of a .pyc file, which this program's code follows, has 8 bytes that Python ignores: the position and the
# length of the index, each in 4 bytes.
INDEX_AT, HEADER = 8, 16


class PackedModules:
    """Finds and loads the modules in a file. Its index is (the folder that holds the package, relative to the file's
    own, {name: (path in that folder, or absolute, whether it is a package, position after the index, length)}, the name
    of the module that starts)."""

    def __init__(self, path: str) -> None:
        self.file = _open(path)
        header = os.pread(self.file, HEADER, 0)
        at, length = (int.from_bytes(header[n : n + 4], "little") for n in (INDEX_AT, INDEX_AT + 4))
        self._begin = at + length
        folder, self._index, self.launcher = marshal.loads(os.pread(self.file, length, at))  # noqa: S302  (kedge wrote it)
        self.folder = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(path)), folder))

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """As the import system asks for it."""
        if name not in self._index:
            return None
        place, is_package, _, _ = self._index[name]
        spec = ModuleSpec(name, self, origin=os.path.join(self.folder, place))  # type: ignore[arg-type]  # it is enough of one
        spec.has_location = True  # the module gets __file__
        if is_package:
            spec.submodule_search_locations = [os.path.dirname(os.path.join(self.folder, place))]
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """An ordinary module."""

    def exec_module(self, module: object) -> None:
        """Run the module's code."""
        names = vars(module)
        _, _, at, length = self._index[names["__name__"]]
        exec(marshal.loads(os.pread(self.file, length, self._begin + at)), names)  # noqa: S102, S302


def _open(path: str) -> int:
    """Open a file, but not under the numbers 0 to 2, even if they are free: they are for /dev/null then."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    if fd > 2:
        return fd
    try:
        return _open(path)
    finally:
        os.close(fd)


def start() -> None:
    """Start from the file that this program stands in."""
    gc.disable()  # a collection during imports frees nothing and takes a tenth of the start-up time
    modules = PackedModules(__file__)
    sys.meta_path.insert(0, modules)
    sys.path.append(modules.folder)  # last, so that nothing in it shadows the standard library

    __import__(modules.launcher)
    sys.modules[modules.launcher].launch()


if __name__ == "__main__":
    start()
