"""Who submits."""

from __future__ import annotations

import getpass
import os
from typing import NamedTuple


class Account(NamedTuple):
    """A user of the operating system, and the names of the user's groups."""

    name: str
    groups: frozenset[str]


def user_name() -> str:
    """The user's name; the uid of a user without a name, as in many containers."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # KeyError before Python 3.13, OSError since
        return str(os.getuid())
    return name.encode(errors="replace").decode()


def account() -> Account:
    """The account of this process. In contrast to `user_name`, no variable of the environment can change it. Users and
    groups without names have their numbers."""
    import grp  # both may ask a directory service, and few jobs need them
    import pwd

    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = str(os.getuid())
    groups = set()
    for number in {os.getgid(), *os.getgroups()}:
        try:
            groups.add(grp.getgrgid(number).gr_name)
        except KeyError:
            groups.add(str(number))
    return Account(name, frozenset(groups))
