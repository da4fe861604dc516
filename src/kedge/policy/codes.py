"""What a completion code says about trying again.

The table is the OpenPAI exit specification's (code, phrase, behaviour), in its order. Codes that it does not define
are unknown; they show as 256 when positive and as -8000 otherwise.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Behaviour(StrEnum):
    """Whether the same failure is to be expected again."""

    TRANSIENT = "transient"
    TRANSIENT_CONFLICT = "transient_conflict"
    PERMANENT = "permanent"
    UNKNOWN = "unknown"


class Code(NamedTuple):
    """One row of the specification."""

    phrase: str
    behaviour: Behaviour


UNDEFINED_POSITIVE = 256
UNDEFINED_NEGATIVE = -8000

_T, _C, _P, _U = Behaviour.TRANSIENT, Behaviour.TRANSIENT_CONFLICT, Behaviour.PERMANENT, Behaviour.UNKNOWN

CODES: dict[int, Code] = {
    0: Code("Succeeded", _U),
    -100: Code("ConfigMapExternalDeleted", _T),
    -101: Code("PodExternalDeleted", _T),
    -110: Code("ConfigMapLocalCacheCreationTimeout", _T),
    -111: Code("PodLocalCacheCreationTimeout", _T),
    -120: Code("PodCreationTransientError", _T),
    -200: Code("PodCreationPermanentError", _P),
    -210: Code("StopFrameworkRequested", _P),
    -220: Code("FrameworkAttemptCompletion", _P),
    -230: Code("DeleteTaskRequested", _P),
    -300: Code("PodFailedWithoutFailedContainer", _U),
    -310: Code("PodCreationUnknownError", _U),
    -1000: Code("PodEvicted", _T),
    -1001: Code("PodNodeLost", _T),
    -1002: Code("PodScheduledToInsufficientResourceNode", _T),
    -1003: Code("PodPreemptedForCriticalPod", _T),
    -1004: Code("PodDeadlineExceeded", _P),
    -1005: Code("PodNodeAdmissionForbidden", _P),
    -1006: Code("PodNodeAdmissionUnexpectedError", _T),
    -1100: Code("CreateFrameworkPermanentFailed", _P),
    -1300: Code("InitContainerDockerOOMKilled", _T),
    -1200: Code("UserContainerDockerOOMKilled", _P),
    -1201: Code("ContainerDockerCreationError", _U),
    -1202: Code("ContainerDockerStartCmdPermissionDenied", _P),
    -1203: Code("ContainerDockerStartCmdNotFound", _P),
    -1205: Code("ContainerGpuDeviceNotFoundError", _T),
    -1204: Code("ContainerDockerStartUnknownError", _U),
    128: Code("ContainerMayFailDueToGpuDeviceEccError", _U),
    130: Code("ContainerSigIntReceived", _T),
    131: Code("ContainerSigQuitReceived", _T),
    132: Code("ContainerSigIllReceived", _P),
    134: Code("ContainerSigAbrtReceived", _U),
    135: Code("ContainerSigBusReceived", _P),
    136: Code("ContainerSigFpeReceived", _P),
    137: Code("ContainerSigKillReceived", _T),
    139: Code("ContainerSigSegvReceived", _U),
    141: Code("ContainerSigPipeReceived", _P),
    143: Code("ContainerSigTermReceived", _T),
    220: Code("UserCommandExitWithError", _P),
    221: Code("ContainerTensorflowOOMKilled", _P),
    222: Code("ContainerMPISegvFault", _P),
    223: Code("ContainerCudaUncorrectableECCError", _T),
    224: Code("ContainerCudaVersionMismatch", _P),
    225: Code("ContainerCudaDnnVersionMismatch", _P),
    226: Code("ContainerCudaOOMKilled", _P),
    228: Code("ContainerIncorrectParameterError", _P),
    229: Code("ContainerIncorrectDataModelError", _P),
    230: Code("ContainerInvalidSavePath", _P),
    231: Code("ContainerSyntaxError", _P),
    232: Code("ContainerImportError", _P),
    233: Code("ContainerIndexOutOfRange", _P),
    234: Code("ContainerSigvFault", _P),
    235: Code("ContainerEngineCoreDump", _P),
    249: Code("PAIRuntimeSSHBarrierTimeout", _P),
    250: Code("FrameworkBarrierTransientFailed", _T),
    251: Code("JobGangAllocationTimeout", _C),
    252: Code("FrameworkBarrierPermanentFailed", _P),
    253: Code("ContainerPortConflict", _T),
    254: Code("ContainerImageNotExists", _P),
    255: Code("PAIRuntimeUnknownFailed", _U),
    UNDEFINED_NEGATIVE: Code("ContainerUndefinedNegativeExitCode", _U),
    UNDEFINED_POSITIVE: Code("PAIRuntimeExitAbnormally", _U),
}


def lookup(code: int) -> Code:
    """The row of a container or completion code; the fallback rows for codes that the specification leaves open."""
    return CODES.get(code) or CODES[UNDEFINED_POSITIVE if code > 0 else UNDEFINED_NEGATIVE]


def behaviour(code: int) -> Behaviour:
    """Whether a failure with this code is transient, permanent or unknown."""
    return lookup(code).behaviour
