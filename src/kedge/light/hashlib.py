"""hashlib.blake2b and md5, without OpenSSL: to load it takes a third of the start of an interpreter."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import blake2b as blake2b
    from hashlib import md5 as md5
else:
    try:
        from _blake2 import blake2b
        from _md5 import md5
    except ImportError:  # a Python that was built without them
        from hashlib import blake2b as blake2b
        from hashlib import md5 as md5
