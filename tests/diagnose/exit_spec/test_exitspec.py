"""The exit specification: the stock one's answers, and what a file of one's own must be like."""

from __future__ import annotations

import json

import pytest
import yaml

from kedge.contract import SIGNAL_CODES, container_code
from kedge.diagnose.exit_spec import exitspec
from kedge.diagnose.exit_spec.termination import Span
from kedge.errors import InputError
from kedge.policy.codes import CODES

RUNTIME_CODES = [128, 130, 131, 132, 134, 135, 136, 137, 139, 141, 143, *range(220, 227), *range(228, 236), 249]
STOCK = exitspec.stock()


def stock_entries():
    with open(exitspec.STOCK) as file:
        return json.load(file)["spec"]


# Exit code, user's log, container code, matched text of the user's log.
VECTORS = [
    (127, "bash: foo: command not found", 220, "command not found"),
    (127, "nothing of the kind", 255, None),
    (1, "command not found", 255, None),
    (3, "Segmentation fault", 234, "Segmentation fault"),
    (1, "bash: line 3: 12 Segmentation fault (core dumped) ./a", 234, "Segmentation fault"),
    (1, "Aborted (core dumped)", 235, "core dumped"),
    (134, "ImportError: x", 134, None),
    (137, "CUDA out of memory", 137, None),
    (143, "", 143, None),
    (130, "", 130, None),
    (138, "nothing known", 255, None),
    (200, "nothing known", 255, None),
    (254, "nothing known", 255, None),
    (2, "nothing known", 255, None),
    (
        1,
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating",
        221,
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating",
    ),
    (1, "ran out of memory trying to allocate 2.0GiB", 221, "ran out of memory trying to allocate"),
    (1, "AttributeError: 'x' object has no attribute 'y'", 231, "AttributeError: 'x' object has no attribute"),
    (1, "IndexError: list index out of range", 233, "IndexError: list index out of range"),
    (1, "ImportError: no module named foo", 232, "ImportError: no module named foo"),
    (1, "ModuleNotFoundError: No module named x", 232, "ModuleNotFoundError: No module named x"),
    (1, "foo: unknown option -- z", 228, "unknown option"),
    (1, "RuntimeError: cuda runtime error (2) : out of memory", 226, "cuda runtime error (2) : out of memory"),
    (1, "cuda runtime error 2 : out of memory", 226, "cuda runtime error 2 : out of memory"),
    (1, "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate", 226, "CUDA out of memory"),
    (
        1,
        "FileNotFoundError: [Errno 2] No such file or directory: x",
        229,
        "FileNotFoundError: [Errno 2] No such file or directory",
    ),
    (1, "TypeError: dynamic_rnn() got multiple values for keyword argument 'x'", 228, None),
]  # fmt: skip


@pytest.mark.parametrize(("exit_code", "log", "code", "matched"), VECTORS)
def test_codes_of_the_stock_specification(exit_code, log, code, matched):
    content = f"first line\n{log}\nlast line\n".encode()
    verdict = STOCK.match(exit_code, content, b"")
    assert verdict.code == code
    if matched:
        assert content[slice(*verdict.user)].decode() == matched
    assert verdict.platform is None


def test_the_platforms_log_is_searched_separately():
    log = b"SSH barrier reaches max retry count. Failed"
    verdict = STOCK.match(10, b"", log)
    assert (verdict.code, verdict.platform, verdict.user) == (249, Span(0, 35), None)
    assert STOCK.match(10, log, b"").code == 255


@pytest.mark.parametrize("exit_code", [1, 137])
def test_errors_of_gpu_memory_explain_every_failure(exit_code):
    verdict = STOCK.match(exit_code, b"ImportError: x", b"", ecc_error=True)
    assert (verdict.code, verdict.ecc_error) == (128, True)
    assert STOCK.match(exit_code, b"", b"", ecc_error=False).code == (137 if exit_code == 137 else 255)


def test_gpu_information_is_compared_as_a_whole():
    spec = exitspec.parse([{"containerExitCode": 9, "patterns": [{"gpuInfo": {"nvidiaDoubleEccError": False}}]}], "x")
    assert [spec.match(1, b"", b"", ecc_error=known).code for known in (False, True, None)] == [9, 255, 255]


def test_invalid_utf_8_hides_nothing():
    log = b"\xff\xfe\0 ImportError: \xe9t\xe9\n"
    assert log[slice(*STOCK.match(1, log, b"").user)] == b"ImportError: \xe9t\xe9"


def test_texts_beyond_ascii_match_characters():
    spec = exitspec.parse([{"containerExitCode": 9, "patterns": [{"userLogRegex": "(?i)fehler: ÜBER.auf"}]}], "x")
    assert spec.match(1, "Fehler: überläuf".encode(), b"").code == 255
    assert spec.match(1, "Fehler: überlauf".encode(), b"").code == 9


TOKENIZE = r"exec\(compile\(getattr\(token[a-z]*, 'open', open\)\(__file__\)"
BOARD = {"userLogRegex": "connect tensorboard failed", "platformLogRegex": "Failed to start tensorboard"}
SMALL = [
    {"containerExitCode": 10, "patterns": [{"exitCode": 1, "userLogRegex": TOKENIZE}]},
    {"containerExitCode": 12, "patterns": [
        {"exitCode": 1, "userLogRegex": r"failed with error code 1 in /tmp/[a-z]*"},
        {"exitCode": 1, "userLogRegex": "package not find [a-z]*"},
    ]},
    {"containerExitCode": 15, "patterns": [{"exitCode": 1, **BOARD}]},
    {"containerExitCode": 16, "patterns": [{"gpuInfo": {"nvidiaDoubleEccError": True}}]},
    {"containerExitCode": 137, "patterns": [{"exitCode": 137}]},
    {"containerExitCode": 221, "patterns": [{"userLogRegex": "(?msi)tensorflow.*ResourceExhaustedError.*OOM.*"}]},
]  # fmt: skip


@pytest.mark.parametrize(
    ("exit_code", "user", "platform", "ecc", "code"),
    [
        (1, "exec(compile(getattr(tokenize, 'open', open)(__file__), f)", "", None, 10),
        (1, 'Command "x" failed with error code 1 in /tmp/pip', "", None, 12),
        (1, "package not find abc", "", None, 12),
        (1, "connect tensorboard failed", "Failed to start tensorboard", None, 15),
        (1, "connect tensorboard failed", "", None, 255),
        (1, "", "Failed to start tensorboard", None, 255),
        (137, "", "", None, 137),
        (137, "", "", True, 16),
        (2, "package not find abc", "", None, 255),
        (1, "tensorflow: a\nb ResourceExhaustedError:\n OOM there", "", None, 221),
    ],
)
def test_all_fields_of_a_pattern_must_hold_and_the_first_pattern_wins(exit_code, user, platform, ecc, code):
    assert exitspec.parse(SMALL, "x").match(exit_code, user.encode(), platform.encode(), ecc).code == code


def test_both_forms_of_a_file_mean_the_same(tmp_path):
    full = {"spec": [{"code": 9, "phrase": "Nine", "pattern": {"runtimeContainerPatterns": [{"exitCode": 4}]}}]}
    short = [{"containerExitCode": 9, "patterns": [{"exitCode": 4}]}]
    for name, text in (("a.yaml", yaml.dump(full)), ("b.json", json.dumps(full)), ("c.yaml", yaml.dump(short))):
        (tmp_path / name).write_text(text)
        assert exitspec.load(str(tmp_path / name)).match(4, b"", b"").code == 9


def test_entries_of_the_controller_are_not_for_the_runtime():
    spec = exitspec.parse(
        {"spec": [{"code": -200}, {"code": 254}, {"code": 9, "pattern": {"controllerPodPatterns": []}}]}, "x"
    )
    assert spec.entries == ()
    assert spec.match(9, b"", b"").code == 255


def test_behaviours_of_rows():
    spec = [
        {"code": 9, "behavior": "TRANSIENT", "pattern": {"runtimeContainerPatterns": [{"exitCode": 4}]}},
        {"code": 8, "behavior": "UNKNOWN", "pattern": {"runtimeContainerPatterns": [{"exitCode": 5}]}},
        {"code": 7, "pattern": {"runtimeContainerPatterns": [{"exitCode": 6}]}},
        {"code": -1200, "behavior": "PERMANENT"},
        {"code": 255, "behavior": "UNKNOWN"},
        {"code": 137, "behavior": None},
    ]
    known = exitspec.parse(spec, "x")
    assert known.behaviours() == {9: "transient", 8: "unknown", -1200: "permanent"}
    again = exitspec.parse(exitspec.to_json(known), "x")
    assert again.behaviours() == known.behaviours()
    assert again.match(4, b"", b"").code == 9
    assert exitspec.parse([{"code": 255, "behavior": "PERMANENT"}], "x").behaviours() == {255: "permanent"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([{"code": 9, "behavior": "MAYBE"}], "code 9: `behavior` must be one of TRANSIENT, TRANSIENT_CONFLICT"),
        ([{"code": 9, "behavior": 1}], "not 1"),
        ([{"code": 9, "behavior": "PERMANENT"}, {"code": 9}], "code 9 has two entries"),
        ("text", "must be a list of entries"),
        (["text"], "entry 1: is not a mapping"),
        ([{"code": 300}], "a number from -8000 to 256, not 300"),
        ([{"code": "5"}], "not '5'"),
        ([{"containerExitCode": 256, "patterns": [{"exitCode": 1}]}], "a container cannot exit with 256"),
        ([{"containerExitCode": 9, "patterns": [{}]}], "code 9, pattern 1 is empty: it would match every failure"),
        ([{"containerExitCode": 9, "patterns": [{"exitCode": None}]}], "pattern 1 is empty"),
        ([{"containerExitCode": 9, "patterns": "x"}], "the patterns must be a list"),
        ([{"containerExitCode": 9, "patterns": [{"exitCode": "1"}]}], "`exitCode` has the wrong type: '1'"),
        ([{"containerExitCode": 9, "patterns": [{"userLogRegexp": "x", "exitCode": 1}]}], "unknown key userLogRegexp"),
        ([{"containerExitCode": 9, "patterns": [{"userLogRegex": "(oom"}]}], "code 9: pattern '(oom': missing ): (oom"),
        ([{"containerExitCode": 9, "patterns": [{"platformLogRegex": "(?<=a)b"}]}], "code 9: pattern '(?<=a)b'"),
        ([{"containerExitCode": 9, "patterns": [{"exitCode": n}]} for n in (1, 2)], "code 9 has two entries"),
    ],
)  # fmt: skip
def test_a_bad_file_is_an_error_with_the_reason(data, message):
    with pytest.raises(InputError) as caught:
        exitspec.parse(data, "site.yaml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("site.yaml: ")


def test_every_problem_is_named_at_once():
    with pytest.raises(InputError) as caught:
        exitspec.parse([{"code": 300}, "x"], "site.yaml")
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(("text", "message"), [(None, "No such file"), ("a: [", "expected")])
def test_a_file_that_cannot_be_read(tmp_path, text, message):
    path = tmp_path / "spec.yaml"
    if text:
        path.write_text(text)
    with pytest.raises(InputError, match=message):
        exitspec.load(str(path))


def test_the_stock_specification_passes_its_own_checks():
    assert [entry.code for entry in exitspec.load(exitspec.STOCK).entries] == RUNTIME_CODES


def test_the_stock_specification_agrees_with_the_table_of_codes():
    rows = {entry["code"]: (entry["phrase"], entry["behavior"].lower()) for entry in stock_entries()}
    assert rows == {code: (row.phrase, row.behaviour.value) for code, row in CODES.items()}


def test_the_more_specific_of_two_entries_for_pods_comes_first():
    codes = [entry["code"] for entry in stock_entries()]
    assert codes.index(-1205) < codes.index(-1204)


@pytest.mark.parametrize("exit_code", range(1, 256))
def test_without_logs_the_code_follows_from_the_exit_code_alone(exit_code):
    assert STOCK.match(exit_code, b"", b"").code == container_code(exit_code)
    assert (STOCK.match(exit_code, b"x", b"x").code == exit_code) == (exit_code in SIGNAL_CODES or exit_code == 255)


def spec_of(pattern: str):
    return exitspec.parse([{"containerExitCode": 9, "patterns": [{"userLogRegex": pattern}]}], "x")


# What Go's regexp, which OpenPAI uses, finds: `.` is one character, and a byte that is no UTF-8 is one, too.
CHARACTERS = [
    ("datei .rger fehlt", "datei ärger fehlt".encode(), "datei ärger fehlt".encode()),
    ("datei ..rger fehlt", "datei ärger fehlt".encode(), None),
    ("^.{3}$", "内存满".encode(), "内存满".encode()),
    ("[äöü]rger", "Ärger ärger".encode(), "ärger".encode()),
    ("(?i)[äöü]RGER", "Ärger".encode(), "Ärger".encode()),
    (r"\p{Han}+", "x 内存 y".encode(), "内存".encode()),
    ("lost .* end", b"\xff lost \xfe\xed\xb2\x80 end", b"lost \xfe\xed\xb2\x80 end"),
    ("datei .rger fehlt", "datei ärger fehlt".encode("latin-1"), b"datei \xe4rger fehlt"),
    ("^a.b$", b"a\xe4\xf6b", None),
    ("^a..b$", b"a\xe4\xf6b", b"a\xe4\xf6b"),
    (r"[^\x00-\x7f]end", b"\xff\xffend", b"\xffend"),
    ("(?m)^end$", "\ufffd\xff\n".encode() + b"\xff\nend\n\xc3", b"end"),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "log", "matched"), CHARACTERS)
def test_a_pattern_sees_characters(pattern: str, log: bytes, matched: bytes | None):
    found = spec_of(pattern).match(1, log, b"")
    assert (log[slice(*found.user)] if found.user else None) == matched
    assert found.code == (9 if matched else 255)
