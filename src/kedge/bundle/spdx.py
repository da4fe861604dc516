"""Translating the names of licences that packages use into those of the SPDX list (https://spdx.org/licenses)."""

from __future__ import annotations

import re

UNKNOWN = "NOASSERTION"  # SPDX's value for an unknown licence
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9.]+")

# By the names in Python packages and in Debian's machine-readable copyright files, in lower case.
_NAMES = {
    "mit": "MIT", "mit license": "MIT", "the mit license": "MIT", "expat": "MIT", "mit/x11": "MIT",
    "apache": "Apache-2.0", "apache 2.0": "Apache-2.0", "apache-2": "Apache-2.0", "apache-2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0", "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd-2-clause": "BSD-2-Clause", "bsd 2-clause": "BSD-2-Clause", "simplified bsd": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause", "bsd 3-clause": "BSD-3-Clause", "3-clause bsd": "BSD-3-Clause",
    "new bsd": "BSD-3-Clause", "new bsd license": "BSD-3-Clause", "modified bsd": "BSD-3-Clause",
    "isc": "ISC", "isc license": "ISC", "isc license (iscl)": "ISC", "zlib": "Zlib", "zlib/libpng": "Zlib",
    "mpl-2.0": "MPL-2.0", "mpl 2.0": "MPL-2.0", "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "psf-2.0": "PSF-2.0", "psf": "PSF-2.0", "psfl": "PSF-2.0", "python-2.0": "Python-2.0",
    "python software foundation license": "PSF-2.0",
    "lgpl-2+": "LGPL-2.0-or-later", "lgpl-2.1": "LGPL-2.1-only", "lgpl-2.1+": "LGPL-2.1-or-later",
    "lgpl-3": "LGPL-3.0-only", "lgpl-3+": "LGPL-3.0-or-later",
    "gpl-2": "GPL-2.0-only", "gpl-2+": "GPL-2.0-or-later", "gpl-3": "GPL-3.0-only", "gpl-3+": "GPL-3.0-or-later",
    "unlicense": "Unlicense", "the unlicense (unlicense)": "Unlicense", "0bsd": "0BSD", "cc0-1.0": "CC0-1.0",
    "epl-2.0": "EPL-2.0", "bsl-1.0": "BSL-1.0", "openldap-2.8": "OLDAP-2.8", "curl": "curl",
}  # fmt: skip
_PARTS = re.compile(r"\s+(and|or)\s+|\s*([()])\s*", re.IGNORECASE)


def expression(name: str, text: str = "") -> str:
    """The SPDX expression for a package's name of its licence. `text` is the licence itself, which decides if the name
    only gives a family. Names unknown to SPDX become a LicenseRef."""
    name = " ".join(name.split())
    if name.lower() in ("bsd", "bsd license", "bsd-like"):
        return _bsd(text)
    if name.lower() in _NAMES:
        return _NAMES[name.lower()]
    parts = (part for part in _PARTS.split(name) if part and part.strip())
    return " ".join(_part(part) for part in parts).replace("( ", "(").replace(" )", ")") or UNKNOWN


def of_debian(copyright_file: str) -> str:
    """The licence of most of a package, from its machine-readable copyright file (DEP 5); UNKNOWN for other files."""
    for paragraph in copyright_file.split("\n\n"):
        fields = dict(line.partition(":")[::2] for line in paragraph.splitlines() if line[:1].strip() and ":" in line)
        if fields.get("Files", "").strip() == "*" and (name := fields.get("License", "").strip()):
            return expression(name)
    return UNKNOWN


def _part(word: str) -> str:
    if word.upper() in ("AND", "OR"):
        return word.upper()
    if word in "()":
        return word
    if " WITH " in word:
        return word
    known = _NAMES.get(word.lower())
    return known or (word if _is_id(word) else f"LicenseRef-{_NOT_IN_IDS.sub('-', word).strip('-')}")


def _is_id(word: str) -> bool:
    """Whether it is an SPDX identifier already."""
    return word in _NAMES.values()


def _bsd(text: str) -> str:
    """Which BSD licence a text is: the third clause is about the use of names."""
    words = " ".join(text.split())
    if "Neither the name" in words or "may not be used to endorse" in words:
        return "BSD-3-Clause"
    return "BSD-2-Clause" if "Redistributions in binary form" in words else "LicenseRef-BSD"
