"""Queries the health of the GPUs from the NVIDIA driver. A separate program, because the driver may hang or crash.

    python -I -S gpu_probe.py

Prints a JSON list of GPUs in bus order: {"index", "uuid", "ecc_errors", "recovery_action", "retired_pages",
"remapped_rows", "remap_failed"}; values that a GPU does not report are null. Functions and numbers are those of nvml.h.
"""

from __future__ import annotations

import ctypes
import json
from typing import Any

_LIBRARY = "libnvidia-ml.so.1"
_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/local/nvidia/lib64",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/wsl/lib",
)
_UNCORRECTED, _VOLATILE = 1, 0  # NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC
_RETIREMENT_CAUSES = (0, 1)  # several single-bit errors, one double-bit error
_INSUFFICIENT_SIZE = 7  # the result of a query for the count alone
_RECOVERY_ACTION = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION


class _NvmlValue(ctypes.Union):
    _fields_ = (("number", ctypes.c_uint), ("wide", ctypes.c_ulonglong))


class _FieldValue(ctypes.Structure):
    _fields_ = (
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("type", ctypes.c_uint),
        ("result", ctypes.c_uint),
        ("value", _NvmlValue),
    )


def gpus(driver: Any) -> list[dict[str, Any]]:
    """Every GPU that responds; one that has fallen off the bus does not."""
    if driver.nvmlInit_v2():
        return []
    count = ctypes.c_uint()
    driver.nvmlDeviceGetCount_v2(ctypes.byref(count))
    found = []
    for index in range(count.value):
        device = ctypes.c_void_p()
        if driver.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) == 0:
            found.append({"index": index, "uuid": _uuid(driver, device), **_health(driver, device)})
    return found


def _health(driver: Any, device: ctypes.c_void_p) -> dict[str, Any]:
    rows = _remapped(driver, device)
    return {
        "ecc_errors": _ecc_errors(driver, device),
        "recovery_action": _recovery_action(driver, device),
        "retired_pages": _retired_pages(driver, device),
        "remapped_rows": rows[1] if rows else None,
        "remap_failed": rows[3] if rows else None,
    }


def _uuid(driver: Any, device: ctypes.c_void_p) -> str:
    text = ctypes.create_string_buffer(96)
    return text.value.decode() if driver.nvmlDeviceGetUUID(device, text, len(text)) == 0 else ""


def _ecc_errors(driver: Any, device: ctypes.c_void_p) -> int | None:
    count = ctypes.c_ulonglong()
    result = driver.nvmlDeviceGetTotalEccErrors(device, _UNCORRECTED, _VOLATILE, ctypes.byref(count))
    return None if result else count.value


def _recovery_action(driver: Any, device: ctypes.c_void_p) -> int | None:
    """0 none, 1 reset the GPU, 2 reboot the node, 3 drain peer-to-peer traffic, 4 drain and reset."""
    field = _FieldValue(field=_RECOVERY_ACTION)
    result = driver.nvmlDeviceGetFieldValues(device, 1, ctypes.byref(field))
    return None if result or field.result else field.value.number


def _retired_pages(driver: Any, device: ctypes.c_void_p) -> int | None:
    """The number of retired pages. Only GPUs up to Volta retire pages; later ones remap rows."""
    total = 0
    for cause in _RETIREMENT_CAUSES:
        count = ctypes.c_uint()
        result = driver.nvmlDeviceGetRetiredPages(device, cause, ctypes.byref(count), None)
        if result not in (0, _INSUFFICIENT_SIZE):
            return None
        total += count.value
    return total


def _remapped(driver: Any, device: ctypes.c_void_p) -> list[int] | None:
    """Rows remapped after correctable errors, rows remapped after uncorrectable ones, whether a remapping is pending,
    and whether one failed."""
    numbers = [ctypes.c_uint() for _ in range(4)]
    result = driver.nvmlDeviceGetRemappedRows(device, *map(ctypes.byref, numbers))
    return None if result else [number.value for number in numbers]


def _driver() -> Any:
    for path in (_LIBRARY, *(f"{folder}/{_LIBRARY}" for folder in _FOLDERS)):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


if __name__ == "__main__":
    library = _driver()
    print(json.dumps(gpus(library) if library else []))
