"""Asks the NVIDIA driver for the machine's GPUs. It runs as a separate program, because the driver may hang or crash.

Prints JSON: {"gpus": [[index, uuid], ...], "problem": null or a text}. A missing driver is not a problem: there are no
GPUs then.
"""

from __future__ import annotations

import json

import pynvml

_NO_DRIVER = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)


def gpus() -> list[tuple[int, str]]:
    """Index and UUID of every GPU that answers; a GPU that has fallen off the bus does not."""
    found = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            found.append((index, _text(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(index)))))
        except pynvml.NVMLError_GpuIsLost:
            continue
    return found


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode()  # older versions of the package return bytes


def main() -> None:
    try:
        pynvml.nvmlInit()
        answer: dict[str, object] = {"gpus": gpus(), "problem": None}
    except pynvml.NVMLError as error:
        answer = {"gpus": [], "problem": None if error.value in _NO_DRIVER else str(error).rstrip(".")}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
