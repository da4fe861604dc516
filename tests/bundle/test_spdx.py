from __future__ import annotations

import re

import pytest

from kedge.bundle import manifest, spdx
from kedge.bundle.build import Bundle

EXPRESSION = re.compile(r"[\w.+()-]+(?: (?:AND|OR|WITH) [\w.+()-]+)*")


@pytest.mark.parametrize(
    ("said", "text", "found"),
    [
        ("MIT License", "", "MIT"),
        ("Apache Software License", "", "Apache-2.0"),
        ("BSD License", "… Neither the name of\nthe copyright holder …", "BSD-3-Clause"),
        ("BSD", "Redistributions in binary form must", "BSD-2-Clause"),
        ("BSD License", "", "LicenseRef-BSD"),
        ("Expat", "", "MIT"),
        ("LGPL-2.1+ and BSD-3-clause", "", "LGPL-2.1-or-later AND BSD-3-Clause"),
        ("GPL-2+ or (MIT and public-domain)", "", "GPL-2.0-or-later OR (MIT AND LicenseRef-public-domain)"),
        ("Own licence, version 3", "", "LicenseRef-Own-licence-version-3"),
        ("", "", spdx.UNKNOWN),
    ],
)
def test_names_are_translated_to_spdx(said: str, text: str, found: str) -> None:
    assert spdx.expression(said, text) == found


def test_a_copyright_file_of_debian() -> None:
    text = "Format: https://x\n\nFiles: src/*\nLicense: GPL-2\n\nFiles: *\nCopyright: 2020 X\nLicense: Zlib\n text\n"
    assert spdx.of_debian(text) == "Zlib"
    assert spdx.of_debian("This package was debianized by hand.\n") == spdx.UNKNOWN


def test_every_file_of_a_bundle_has_a_licence(bundle: Bundle) -> None:
    licences = {entry.licence for entry in manifest.entries(bundle.path)}
    assert "Python-2.0" in licences
    for licence in licences:
        assert EXPRESSION.fullmatch(licence), licence
        assert licence != spdx.UNKNOWN
