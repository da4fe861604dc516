"""Run by the image's own python3, whatever its version: fetches a file or a folder through fsspec.

Standard input is a JSON object: `uri` and `path`. Standard output gets one if it fails: `kind` (module, missing,
denied, wrong or other) and `message`.
"""

import importlib
import json
import sys


def fetch(uri: str, path: str) -> None:
    """Fetch one. A folder comes with all that is in it."""
    filesystem, place = importlib.import_module("fsspec.core").url_to_fs(uri)
    if filesystem.isdir(place):
        filesystem.get(place.rstrip("/") + "/", path.rstrip("/") + "/", recursive=True)
    else:
        filesystem.get_file(place, path)


def main() -> int:
    """Answer on standard output."""
    wanted = json.load(sys.stdin)
    try:
        fetch(wanted["uri"], wanted["path"])
    except ImportError as error:
        kind, message = "module", str(error)
    except FileNotFoundError as error:
        kind, message = "missing", str(error)
    except PermissionError as error:
        kind, message = "denied", str(error)
    except ValueError as error:
        kind, message = "wrong", str(error)
    except Exception as error:  # whatever the storage's own library raises: it is told
        kind, message = "other", f"{type(error).__name__}: {error}"
    else:
        return 0
    print(json.dumps({"kind": kind, "message": message}))
    return 1


if __name__ == "__main__":
    sys.exit(main())
