"""Run by the image's own python3, whatever its version: fetches a file or a folder with fsspec.

Standard input is a JSON object with `uri` and `path`. On failure a JSON object is printed: `kind` (module, missing,
denied, wrong or other) and `message`.
"""

import importlib
import json
import sys


def fetch(uri: str, path: str) -> None:
    """Fetch a file, or a folder with all its contents."""
    filesystem, place = importlib.import_module("fsspec.core").url_to_fs(uri)
    if filesystem.isdir(place):
        filesystem.get(place.rstrip("/") + "/", path.rstrip("/") + "/", recursive=True)
    else:
        filesystem.get_file(place, path)


def main() -> int:
    """Fetch what standard input asks for, and print the failure if there is one."""
    request = json.load(sys.stdin)
    try:
        fetch(request["uri"], request["path"])
    except ImportError as error:
        kind, message = "module", str(error)
    except FileNotFoundError as error:
        kind, message = "missing", str(error)
    except PermissionError as error:
        kind, message = "denied", str(error)
    except ValueError as error:
        kind, message = "wrong", str(error)
    except Exception as error:  # reported: the storage's own library may raise anything
        kind, message = "other", f"{type(error).__name__}: {error}"
    else:
        return 0
    print(json.dumps({"kind": kind, "message": message}))
    return 1


if __name__ == "__main__":
    sys.exit(main())
