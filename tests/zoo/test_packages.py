"""Packages that cannot be installed and libraries that cannot be loaded."""

from __future__ import annotations

import pytest

from .case import Case
from .conftest import Zoo
from .needs import COMPILER
from .servers import answers

PIP = "python -m pip --isolated --disable-pip-version-check install"
BUILD_EXTENSION = "setup(name='zoo', version='1', ext_modules=[Extension('fast', ['fast.c'])])"
LIBRARY = {
    "fast.c": "int twice(int n) { return 2 * n; }\n",
    "tool.c": "int twice(int);\nint main() { return twice(0); }\n",
}
LINK = "gcc -shared -fPIC -Wl,-z,now -o"  # all symbols when the library is loaded

CASES = [
    Case("no package of that name", "package_install_failure", command=f"{PIP} --no-index kedge-zoo-absent==1.0"),
    Case("empty index", "package_install_failure", place=answers(404),
         command=f"{PIP} --retries 0 --index-url ${{URL%/*}}/simple kedge-zoo-absent"),
    Case("requirements missing", "package_install_failure", command=f"{PIP} -r requirements.txt"),
    Case("package cannot be built", "package_install_failure",
         command=f"{PIP} --no-index --no-build-isolation --target out .",
         files={"setup.py": "raise SystemExit('zoo needs Python 4')\n"}),
    Case("extension cannot be built", "extension_build_failure", command="python setup.py build_ext --inplace",
         files={"setup.py": f"from setuptools import Extension, setup\n{BUILD_EXTENSION}\n",
                "fast.c": "#include <kedge_zoo_absent.h>\n"}, needs=(COMPILER,)),
    Case("library missing", "shared_lib_missing", "import ctypes\nctypes.CDLL('libzoo.so.1')\n", frame="train.py:2"),
    Case("library of a program missing", "shared_lib_missing", files=LIBRARY, needs=(COMPILER,),
         command="gcc -shared -fPIC -o libfast.so fast.c\ngcc -o tool tool.c -L. -lfast\nrm libfast.so\n./tool"),
    Case("undefined symbol", "abi_mismatch", "import ctypes\nctypes.CDLL('./libtool.so')\n", files=LIBRARY,
         command=f"{LINK} libtool.so tool.c\npython train.py", frame="train.py:2", needs=(COMPILER,)),
    Case("undefined symbol of a module", "abi_mismatch", "import tool\n", files=LIBRARY,
         command=f"{LINK} tool.so tool.c\npython train.py", frame="train.py:1", needs=(COMPILER,)),
    Case("library of another machine", "abi_mismatch", "import ctypes\nctypes.CDLL('./libtool.so')\n", files=LIBRARY,
         command=r"gcc -shared -fPIC -o libtool.so fast.c" "\n"
         r"printf '\1' | dd of=libtool.so bs=1 seek=4 conv=notrunc status=none" "\npython train.py",
         frame="train.py:2", needs=(COMPILER,)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_packages(zoo: Zoo, case: Case) -> None:
    zoo.expect(case)
