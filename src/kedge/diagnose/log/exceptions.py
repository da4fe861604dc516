"""The cause that follows from an exception's type alone, if no rule matches its message."""

from __future__ import annotations

from kedge.diagnose.log.frames import Frame
from kedge.diagnose.log.log_text import LogLine
from kedge.diagnose.regex import regex
from kedge.light.types import NamedTuple, Sequence


class Meaning(NamedTuple):
    """A cause, how specific it is (like a rule's rank), and whether it is always a consequence."""

    cause: str
    rank: int
    symptom: bool = False


OTHERS = Meaning("python_bug", 25)
_TABLE = {
    Meaning("lock_contention", 35): "BlockingIOError",
    Meaning("python_bug", 21): "RuntimeError ValueError OSError IOError Exception SystemError InternalError",
    Meaning("syntax_error", 60): "SyntaxError IndentationError TabError",
    Meaning("missing_module", 45): "ModuleNotFoundError",
    Meaning("import_conflict", 35): "ImportError",
    Meaning("data_file_missing", 35): "FileNotFoundError NotADirectoryError IsADirectoryError",
    Meaning("output_path_error", 35): "FileExistsError",
    Meaning("permission_denied", 40): "PermissionError",
    Meaning("host_oom_alloc", 40): "MemoryError _ArrayMemoryError",
    Meaning("gpu_oom", 45): "OutOfMemoryError",
    Meaning("gpu_oom", 35): "ResourceExhaustedError",
    Meaning("user_interrupt", 30): "KeyboardInterrupt",
    Meaning("network_transient", 22): "ConnectionResetError ConnectionRefusedError ConnectionAbortedError "
    "ConnectionError ServerSelectionTimeoutError AutoReconnect ServiceUnavailable SSHException URLError RPCError",
    Meaning("network_transient", 35): "ReadTimeout ConnectTimeout ReadTimeoutError ChunkedEncodingError IncompleteRead "
    "ProtocolError FSTimeoutError TimeoutError ConnectTimeoutError ServerDisconnectedError ClientPayloadError",
    Meaning("network_unreachable", 45): "gaierror NameResolutionError OfflineModeIsEnabled",
    Meaning("remote_access_denied", 50): "GatedRepoError NoCredentialsError NotAuthenticated AuthenticationError",
    Meaning("data_corrupt", 35): "JSONDecodeError UnicodeDecodeError UnpicklingError BadZipFile BadGzipFile "
    "UnidentifiedImageError ParserError ArrowInvalid DataLossError ReadError",
    Meaning("data_corrupt", 22): "EOFError",
    Meaning("bad_config", 45): "MisconfigurationException ConfigAttributeError ConfigKeyError MissingMandatoryValue "
    "ArgumentError MissingConfigException ConfigCompositionException ValidationError NoSectionError NoOptionError "
    "InstantiationException UsageError BadParameter ScannerError ConstructorError",
    Meaning("rendezvous_failure", 45): "DistStoreError RendezvousTimeoutError RendezvousConnectionError",
    Meaning("rendezvous_failure", 25): "DistNetworkError",
    Meaning("nccl_init_error", 25): "DistBackendError",
    Meaning("remote_worker_lost", 25): "ActorDiedError RayActorError WorkerCrashedError NodeDiedError",
    Meaning("remote_worker_lost", 18): "BrokenProcessPool TerminatedWorkerError",
    Meaning("peer_failure", 15, symptom=True): "BrokenPipeError RendezvousClosedError",
    Meaning("peer_failure", 10, symptom=True): "ChildFailedError ProcessExitedException",
    Meaning("unknown", 5, symptom=True): "CalledProcessError SystemExit CellExecutionError PapermillExecutionError",
}  # fmt: skip
_TYPES = {name: found for found, names in _TABLE.items() for name in names.split()}
# Patterns for the names of types that are not in the table; the first match counts.
_BY_NAME = (
    (rb"^(?:File|Path|Group|Array|Node|Object|Resource|Blob|Key|Bucket|Entry|Dataset|Data)s?\w*NotFound",
     Meaning("data_file_missing", 35)),
    (rb"Unschedulable|InsufficientResources", Meaning("scheduler_resource_unavailable", 40)),
    (rb"Preempt", Meaning("preempted", 35)),
    (rb"Unauthori[sz]ed|Forbidden|AccessDenied|NotAuthori[sz]ed|Authentication|Credentials?(?:Error|NotFound)|TokenLoad",
     Meaning("remote_access_denied", 40)),
    (rb"NotInstalled|Missing(?:Dependency|Requirement|Package)|Optional(?:Import|Dependency)|Dependency(?:Missing|NotFound)",
     Meaning("missing_module", 40)),
    (rb"(?:Parameter|Option|Config|Configuration|Settings?|Hyperparameter)\w*(?:Error|Exception|Invalid)$|"
     rb"^Invalid(?:Parameter|Option|Config|Backend|Setting|Choice)|Duplicated?(?:Study|Experiment|Name)",
     Meaning("bad_config", 35)),
    (rb"\w{3}ImportError$", Meaning("import_conflict", 35)),
    (rb"Version(?:Error|Conflict|Mismatch)|Incompatible\w*Version", Meaning("import_conflict", 35)),
    (rb"Corrupt|Truncat|Malformed|InvalidData|Undecodable|Decod(?:e|ing)\w*Error|ParseError|Checksum|BadMagic",
     Meaning("data_corrupt", 35)),
    (rb"Shape\w*Error|Dimension\w*(?:Error|Mismatch)|SizeMismatch", Meaning("shape_mismatch", 40)),
    (rb"Lock(?:ed|Timeout|Error|Exception)", Meaning("lock_contention", 35)),
    (rb"OutOfMemory|MemoryError", Meaning("host_oom_alloc", 40)),
    (rb"Timeout|TimedOut|Deadline|Unavailable|Connection|Network|Socket|Transport|RateLimit|Throttl|TooManyRequests",
     Meaning("network_transient", 22)),
    (rb"Cancell?ed|Abort|Disconnect|Closed|Lost|Died|Dead(?:Error|Exception)|Killed|Terminated|Shutdown",
     Meaning("peer_failure", 15, symptom=True)),
)  # fmt: skip

_NAME = rb"^[A-Z]\w*(?:Error|Exception|Interrupt|Exit|NotFound|Failed|Timeout)$"
_OTHER_VERSION = (
    rb"^TypeError: (?:[\w.]+\.)?__init__\(\) got an unexpected keyword argument|"
    rb"^AttributeError: module '[\w.]+' has no attribute '"
)
# Functions of installed code that pass the user's arguments on to the user's code.
_PASS_ON = ("_call_impl", "_wrapped_call_impl", "_call_target", "instantiate", "build_from_cfg", "_Fire", "invoke")

# Calls in the failing lines of a traceback that show what a file was used for.
_WRITES = (
    b", 'w", b', "w', b", 'a'", b", 'x", b"makedirs(", b"mkdir(", b".save(", b"savefig(", b".to_csv(", b"imwrite(",
    b"savetxt(", b"dump(", b"FileHandler(", b"SummaryWriter(",
)  # fmt: skip
_LOADS = (
    b"torch.load(", b"load_checkpoint(", b"load_state_dict(", b"from_pretrained(", b"paddle.load(", b"load_model(",
    b"load_weights(", b"restore(", b"safe_open(", b"load_file(", b"ckpt[", b"checkpoint[", b"state_dict[",
)  # fmt: skip
_CHECKPOINTS = (
    b".pt'", b".pth'", b".ckpt", b".safetensors", b"checkpoint", b".pdparams", b".pth.tar", b"weights",
    b".onnx",
)  # fmt: skip
# Metrics of scikit-learn check the predictions of a model.
_CHECKS_PREDICTIONS = rb"\b(?:check_array|assert_all_finite|column_or_1d)\(\s*y_(?:pred|score|prob)"
_STARTS = (b"fork", b"Popen", b"start(")  # EAGAIN when starting a process means a limit, not a lock
# Names of settings that a failing line checks or reads.
_SETTINGS = (
    b"args.", b"args[", b"cfg.", b"cfg[", b"config.", b"config[", b"conf[", b"opt.", b"opts.", b"flags.", b"FLAGS.",
    b"hparams", b"os.environ[", b"options.",
)  # fmt: skip
_OF_CHECKPOINT = {"data_file_missing": "checkpoint_missing", "data_corrupt": "checkpoint_corrupt"}


def meaning(kind: str) -> Meaning:
    """The meaning of an exception of this type (without its module)."""
    by_name = (found for pattern, found in _BY_NAME if regex(pattern).search(kind.encode()))
    return _TYPES.get(kind) or next(by_name, OTHERS)


def named(kind: str) -> bool:
    """Whether it is certainly the name of an exception with a meaning more specific than OTHERS."""
    return kind in _TYPES or (bool(regex(_NAME).search(kind.encode())) and meaning(kind) is not OTHERS)


def between_packages(innermost: Frame, message: Sequence[LogLine]) -> bool:
    """Whether installed code uses something of another package that the installed version of that does not have."""
    return (
        not innermost.users
        and bool(message)
        and innermost.where not in _PASS_ON
        and bool(regex(_OTHER_VERSION).search(message[0].body))
    )


def is_specific(kind: str) -> bool:
    """Whether the type alone indicates a cause, not only that something is wrong."""
    return meaning(kind).rank >= 35


def refined(cause: str, kind: str, message: bytes, sources: bytes) -> str:
    """Refine the cause by the failing lines of the program: they may write, load a checkpoint or check settings."""
    loads = any(call in sources for call in _LOADS)
    if cause == "data_file_missing" and any(call in sources for call in _WRITES):
        return "output_path_error"
    if cause == "data_file_missing" and b"rmtree(" in sources:
        return "lock_contention"  # rmtree had just listed the file, so another process has removed it
    if cause == "data_corrupt" and regex(_CHECKS_PREDICTIONS).search(sources):
        return "loss_nan"
    if kind == "KeyError" and loads:
        return "checkpoint_mismatch"
    if kind == "BlockingIOError" and any(call in sources for call in _STARTS):
        return "host_oom_alloc"
    if cause == "python_bug" and kind in ("AssertionError", "KeyError") and _about_settings(kind, sources):
        return "bad_config"
    if loads or (cause == "data_file_missing" and any(name in message for name in _CHECKPOINTS)):
        return _OF_CHECKPOINT.get(cause, cause)
    return cause


def _about_settings(kind: str, sources: bytes) -> bool:
    failing = sources.rpartition(b"\n")[2].strip()
    return any(name in failing for name in _SETTINGS) and (kind == "KeyError" or failing.startswith(b"assert "))
