"""The completion codes and whether to retry after them.

The table (code, phrase, behaviour) is the OpenPAI exit specification's, in its order. Codes that it does not define are
unknown; they are shown as 256 if positive and as -8000 otherwise.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Behaviour(StrEnum):
    """Whether a retry can be expected to fail in the same way."""

    TRANSIENT = "transient"
    TRANSIENT_CONFLICT = "transient_conflict"
    PERMANENT = "permanent"
    UNKNOWN = "unknown"


class CompletionCode(NamedTuple):
    """One row of the specification."""

    phrase: str
    behaviour: Behaviour


UNDEFINED_POSITIVE = 256
UNDEFINED_NEGATIVE = -8000

_T, _C, _P, _U = Behaviour.TRANSIENT, Behaviour.TRANSIENT_CONFLICT, Behaviour.PERMANENT, Behaviour.UNKNOWN

CODES: dict[int, CompletionCode] = {
    0: CompletionCode("Succeeded", _U),
    -100: CompletionCode("ConfigMapExternalDeleted", _T),
    -101: CompletionCode("PodExternalDeleted", _T),
    -110: CompletionCode("ConfigMapLocalCacheCreationTimeout", _T),
    -111: CompletionCode("PodLocalCacheCreationTimeout", _T),
    -120: CompletionCode("PodCreationTransientError", _T),
    -200: CompletionCode("PodCreationPermanentError", _P),
    -210: CompletionCode("StopFrameworkRequested", _P),
    -220: CompletionCode("FrameworkAttemptCompletion", _P),
    -230: CompletionCode("DeleteTaskRequested", _P),
    -300: CompletionCode("PodFailedWithoutFailedContainer", _U),
    -310: CompletionCode("PodCreationUnknownError", _U),
    -1000: CompletionCode("PodEvicted", _T),
    -1001: CompletionCode("PodNodeLost", _T),
    -1002: CompletionCode("PodScheduledToInsufficientResourceNode", _T),
    -1003: CompletionCode("PodPreemptedForCriticalPod", _T),
    -1004: CompletionCode("PodDeadlineExceeded", _P),
    -1005: CompletionCode("PodNodeAdmissionForbidden", _P),
    -1006: CompletionCode("PodNodeAdmissionUnexpectedError", _T),
    -1100: CompletionCode("CreateFrameworkPermanentFailed", _P),
    -1300: CompletionCode("InitContainerDockerOOMKilled", _T),
    -1200: CompletionCode("UserContainerDockerOOMKilled", _P),
    -1201: CompletionCode("ContainerDockerCreationError", _U),
    -1202: CompletionCode("ContainerDockerStartCmdPermissionDenied", _P),
    -1203: CompletionCode("ContainerDockerStartCmdNotFound", _P),
    -1205: CompletionCode("ContainerGpuDeviceNotFoundError", _T),
    -1204: CompletionCode("ContainerDockerStartUnknownError", _U),
    128: CompletionCode("ContainerMayFailDueToGpuDeviceEccError", _U),
    130: CompletionCode("ContainerSigIntReceived", _T),
    131: CompletionCode("ContainerSigQuitReceived", _T),
    132: CompletionCode("ContainerSigIllReceived", _P),
    134: CompletionCode("ContainerSigAbrtReceived", _U),
    135: CompletionCode("ContainerSigBusReceived", _P),
    136: CompletionCode("ContainerSigFpeReceived", _P),
    137: CompletionCode("ContainerSigKillReceived", _T),
    139: CompletionCode("ContainerSigSegvReceived", _U),
    141: CompletionCode("ContainerSigPipeReceived", _P),
    143: CompletionCode("ContainerSigTermReceived", _T),
    220: CompletionCode("UserCommandExitWithError", _P),
    221: CompletionCode("ContainerTensorflowOOMKilled", _P),
    222: CompletionCode("ContainerMPISegvFault", _P),
    223: CompletionCode("ContainerCudaUncorrectableECCError", _T),
    224: CompletionCode("ContainerCudaVersionMismatch", _P),
    225: CompletionCode("ContainerCudaDnnVersionMismatch", _P),
    226: CompletionCode("ContainerCudaOOMKilled", _P),
    228: CompletionCode("ContainerIncorrectParameterError", _P),
    229: CompletionCode("ContainerIncorrectDataModelError", _P),
    230: CompletionCode("ContainerInvalidSavePath", _P),
    231: CompletionCode("ContainerSyntaxError", _P),
    232: CompletionCode("ContainerImportError", _P),
    233: CompletionCode("ContainerIndexOutOfRange", _P),
    234: CompletionCode("ContainerSigvFault", _P),
    235: CompletionCode("ContainerEngineCoreDump", _P),
    249: CompletionCode("PAIRuntimeSSHBarrierTimeout", _P),
    250: CompletionCode("FrameworkBarrierTransientFailed", _T),
    251: CompletionCode("JobGangAllocationTimeout", _C),
    252: CompletionCode("FrameworkBarrierPermanentFailed", _P),
    253: CompletionCode("ContainerPortConflict", _T),
    254: CompletionCode("ContainerImageNotExists", _P),
    255: CompletionCode("PAIRuntimeUnknownFailed", _U),
    UNDEFINED_NEGATIVE: CompletionCode("ContainerUndefinedNegativeExitCode", _U),
    UNDEFINED_POSITIVE: CompletionCode("PAIRuntimeExitAbnormally", _U),
}


def lookup(code: int) -> CompletionCode:
    """The row of a container or completion code; a fallback row for codes that the specification does not define."""
    return CODES.get(code) or CODES[UNDEFINED_POSITIVE if code > 0 else UNDEFINED_NEGATIVE]


def behaviour(code: int) -> Behaviour:
    """Whether a failure with this code is transient, permanent or unknown."""
    return lookup(code).behaviour
