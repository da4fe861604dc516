"""What an exception's type alone says, when no rule knows its message."""

from __future__ import annotations

from typing import NamedTuple

GENERIC = 25  # the rank of such an answer
WEAK = 15
OUTPUT_CALLS = (b"'w", b'"w', b"'a'", b'"a"', b"makedirs(", b"mkdir(", b".save(", b"savefig(", b".to_csv(", b"imwrite(", b"savetxt(", b"dump(")
CHECKPOINT_NAMES = (b".pt'", b".pth'", b".ckpt", b".safetensors", b"checkpoint", b".pt\"", b".bin'", b".pdparams", b".h5'", b"weights")


class Meaning(NamedTuple):
    """A cause, how specific it is, and whether it is only ever a consequence."""

    cause: str
    rank: int = GENERIC
    symptom: bool = False


_BUG = Meaning("python_bug")
_WEAK_BUG = Meaning("python_bug", 21)
_TYPES = {
    "SyntaxError": Meaning("syntax_error", 60), "IndentationError": Meaning("syntax_error", 60), "TabError": Meaning("syntax_error", 60),
    "ModuleNotFoundError": Meaning("missing_module", 45), "ImportError": Meaning("import_conflict", 35),
    "FileNotFoundError": Meaning("data_file_missing", 35), "NotADirectoryError": Meaning("data_file_missing", 30),
    "FileExistsError": Meaning("output_path_error", 35), "IsADirectoryError": Meaning("output_path_error", 30),
    "PermissionError": Meaning("permission_denied", 40), "MemoryError": Meaning("host_oom_alloc", 40), "_ArrayMemoryError": Meaning("host_oom_alloc", 45),
    "KeyboardInterrupt": Meaning("user_interrupt", 30),
    "ConnectionResetError": Meaning("network_transient", 22), "ConnectionRefusedError": Meaning("network_transient", 22),
    "ConnectionError": Meaning("network_transient", 25), "ReadTimeout": Meaning("network_transient", 30),
    "ConnectTimeout": Meaning("network_transient", 30), "ReadTimeoutError": Meaning("network_transient", 30), "ChunkedEncodingError": Meaning("network_transient", 35),
    "IncompleteRead": Meaning("network_transient", 35), "gaierror": Meaning("network_unreachable", 45), "NameResolutionError": Meaning("network_unreachable", 45),
    "BrokenPipeError": Meaning("peer_failure", 15, symptom=True),
    "JSONDecodeError": Meaning("data_corrupt", 35), "UnicodeDecodeError": Meaning("data_corrupt", 35), "UnpicklingError": Meaning("data_corrupt", 35),
    "BadZipFile": Meaning("data_corrupt", 35), "UnidentifiedImageError": Meaning("data_corrupt", 50), "ParserError": Meaning("data_corrupt", 30),
    "EOFError": Meaning("data_corrupt", 22), "BadGzipFile": Meaning("data_corrupt", 40), "ReadError": Meaning("data_corrupt", 25),
    "GatedRepoError": Meaning("remote_access_denied", 55), "RepositoryNotFoundError": Meaning("remote_access_denied", 40),
    "OutOfMemoryError": Meaning("gpu_oom", 45), "ResourceExhaustedError": Meaning("gpu_oom", 35),
    "ChildFailedError": Meaning("peer_failure", 10, symptom=True), "CalledProcessError": Meaning("unknown", 5, symptom=True),
    "SystemExit": Meaning("unknown", 5, symptom=True),
    "RuntimeError": _WEAK_BUG, "ValueError": _WEAK_BUG, "OSError": _WEAK_BUG, "IOError": _WEAK_BUG, "Exception": _WEAK_BUG,
    "MisconfigurationException": Meaning("bad_config", 45), "ConfigAttributeError": Meaning("bad_config", 50),
    "ConfigKeyError": Meaning("bad_config", 50), "MissingMandatoryValue": Meaning("bad_config", 50), "MissingConfigException": Meaning("bad_config", 50),
    "ConfigCompositionException": Meaning("bad_config", 50), "ArgumentError": Meaning("bad_config", 45), "ValidationError": Meaning("bad_config", 30),
    "NoSectionError": Meaning("bad_config", 40), "NoOptionError": Meaning("bad_config", 40),
    "DistNetworkError": Meaning("rendezvous_failure", 30), "DistStoreError": Meaning("rendezvous_failure", 40), "RendezvousTimeoutError": Meaning("rendezvous_failure", 55),
    "RendezvousConnectionError": Meaning("rendezvous_failure", 50), "RendezvousClosedError": Meaning("rendezvous_failure", 25),
    "DistBackendError": Meaning("nccl_init_error", 25), "ActorDiedError": Meaning("remote_worker_lost", 25), "WorkerCrashedError": Meaning("remote_worker_lost", 25),
    "RayActorError": Meaning("remote_worker_lost", 25), "BrokenProcessPool": Meaning("remote_worker_lost", 18),
}  # fmt: skip


def meaning(kind: str) -> Meaning:
    """What an exception of this type (without its module) means."""
    return _TYPES.get(kind, _BUG)


def refined(found: Meaning, message: bytes, sources: bytes) -> Meaning:
    """A missing file is a checkpoint by its name, or an output if the failing line writes."""
    if found.cause != "data_file_missing":
        return found
    if any(call in sources for call in OUTPUT_CALLS):
        return found._replace(cause="output_path_error")
    if any(name in message for name in CHECKPOINT_NAMES):
        return found._replace(cause="checkpoint_missing")
    return found
