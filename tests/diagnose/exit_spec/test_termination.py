"""The termination message: what it shows, and that it always fits and can always be read."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kedge.diagnose.exit_spec import exitspec, termination, yaml_text
from kedge.diagnose.exit_spec.termination import ExitSpecVerdict, Span

STOCK = exitspec.stock()
NOTHING = ExitSpecVerdict(255)
KEYS = [
    "exitCode", "originUserExitCode", "matchedUserLogString", "matchedPlatformLogString", "matchedGpuInfo", "errorLogs",
]  # fmt: skip


def read(message):
    """The parsed body of a message, after checking its frame, its size and the order of its keys."""
    assert len(message) <= 4096
    text = message.decode()
    assert text.startswith("[PAI_RUNTIME_ERROR_START]\n")
    assert text.endswith("\n[PAI_RUNTIME_ERROR_END]")
    assert text.count("[PAI_RUNTIME_ERROR") == 2
    body = text[len("[PAI_RUNTIME_ERROR_START]\n") : -len("\n[PAI_RUNTIME_ERROR_END]")]
    assert body.endswith("\n")
    data = yaml.safe_load(body)
    assert list(data) == [key for key in KEYS if key in data]
    return data


def of_logs(exit_code, user, platform=b""):
    return read(termination.message(STOCK.match(exit_code, user, platform), exit_code, user, platform))


def test_the_form_of_a_message():
    user, platform = b"out1\nSegmentation fault\n", b"[Fri] [openpai-runtime] [INFO] USER COMMAND START\n"
    message = termination.message(ExitSpecVerdict(234, Span(5, 23)), 3, user, platform)
    assert message.decode() == (
        "[PAI_RUNTIME_ERROR_START]\n"
        "exitCode: 234\n"
        "originUserExitCode: 3\n"
        "matchedUserLogString: Segmentation fault\n"
        "errorLogs:\n"
        "  user: |\n"
        "    out1\n"
        "    Segmentation fault\n"
        "  platform: |\n"
        "    [Fri] [openpai-runtime] [INFO] USER COMMAND START\n"
        "\n"
        "[PAI_RUNTIME_ERROR_END]"
    )


def test_without_a_match_the_last_lines_are_shown():
    log = b"".join(b"line %d\n" % n for n in range(100))
    logs = of_logs(1, log, log)["errorLogs"]
    assert logs["user"].split("\n") == [*(f"line {n}" for n in range(86, 100)), ""]
    assert logs["platform"].split("\n") == [*(f"line {n}" for n in range(91, 100)), ""]


def test_a_match_is_shown_with_lines_around_it():
    log = b"".join(b"line %d\n" % n for n in range(100))
    data = of_logs(1, log + b"x ImportError: foo\n" + log)
    assert data["matchedUserLogString"] == "ImportError: foo"
    expected = ["line 97", "line 98", "line 99", "x ImportError: foo", *(f"line {n}" for n in range(11))]
    assert data["errorLogs"]["user"].split("\n") == expected


def test_a_match_near_the_end_is_shown_with_more_lines_before_it():
    log = b"".join(b"line %d\n" % n for n in range(100))
    lines = of_logs(1, log + b"ImportError: foo\nlast\n")["errorLogs"]["user"].split("\n")
    assert lines == [*(f"line {n}" for n in range(88, 100)), "ImportError: foo", "last", ""]


def test_the_last_lines_of_a_long_match_are_shown():
    log = b"".join(b"line %d\n" % n for n in range(100))
    text = read(termination.message(ExitSpecVerdict(9, Span(0, len(log) - 1)), 1, log, b""))["errorLogs"]["user"]
    assert text.split("\n") == [f"line {n}" for n in range(85, 100)]


def test_the_beginning_of_a_match_of_one_endless_line_is_shown():
    data = of_logs(1, b"ImportError: " + b"x" * 20_000_000)
    assert data["matchedUserLogString"] == "ImportError: " + "x" * (2048 - 13)
    assert data["exitCode"] == 232
    assert "errorLogs" in data


def test_windows_line_ends_are_line_ends():
    data = of_logs(1, b"one\r\nImportError: foo\r\nthree\r\n")
    assert data["matchedUserLogString"] == "ImportError: foo"
    assert data["errorLogs"]["user"] == "one\nImportError: foo\nthree\n"


def test_matched_gpu_information_is_included():
    assert read(termination.message(ExitSpecVerdict(128, ecc_error=True), 1, b"", b"")) == {
        "exitCode": 128,
        "originUserExitCode": 1,
        "matchedGpuInfo": {"nvidiaDoubleEccError": True},
        "errorLogs": {},
    }


def test_a_command_that_never_ran_has_no_exit_code():
    assert read(termination.message(NOTHING, None, b"", b"")) == {"exitCode": 255, "errorLogs": {}}


def test_the_platforms_log_is_cut_first_and_the_end_of_the_users_is_kept():
    log = b"".join(b"%03d" % n + b"x" * 397 + b"\n" for n in range(200))
    message = termination.message(NOTHING, 1, log, log)
    logs = read(message)["errorLogs"]
    assert list(logs) == ["user"]
    assert logs["user"].endswith("199" + "x" * 397 + "\n")
    assert len(message) > 4000


@pytest.mark.parametrize(("following", "first"), [(20, "ImportError: foo\n"), (9, "xxx")])
def test_a_match_stays_when_the_log_around_it_is_cut(following, first):
    long = b"x" * 400 + b"\n"
    log = long * 9 + b"ImportError: foo\n" + long * following
    message = termination.message(STOCK.match(1, log, b""), 1, log, b"")
    text = read(message)["errorLogs"]["user"]
    assert text.startswith(first)
    assert "ImportError: foo\n" in text
    assert len(message) > 4000


def test_characters_are_not_split():
    log = ("語" * 400 + "\n").encode() * 30
    message = termination.message(NOTHING, 1, log, log)
    text = read(message)["errorLogs"]["user"]
    assert set(text) == {"語", "\n"}
    assert len(message) > 4000


def test_the_codes_stay_when_nothing_else_fits():
    hostile = b"ImportError: " + b"\0" * 2035 + b"\n"
    data = of_logs(1, hostile * 20, b"\0" * 5000)
    assert (data["exitCode"], data["originUserExitCode"]) == (232, 1)


def test_the_message_of_another_task_in_a_log_is_not_taken_for_the_message():
    inner = termination.message(NOTHING, 1, b"inner\n", b"")
    text = of_logs(1, inner + b"\nImportError: [PAI_RUNTIME_ERROR_END]\n")["errorLogs"]["user"]
    assert "inner" in text


@given(
    exit_code=st.integers(1, 255),
    user=st.binary(max_size=300) | st.text(max_size=300).map(str.encode),
    platform=st.binary(max_size=100),
    repeat=st.integers(1, 200),
)
def test_whatever_the_logs_hold_the_message_fits_and_can_be_read(exit_code, user, platform, repeat):
    user, platform = user * repeat, platform * repeat
    verdict = STOCK.match(exit_code, user, platform)
    data = read(termination.message(verdict, exit_code, user, platform))
    assert (data["exitCode"], data["originUserExitCode"]) == (verdict.code, exit_code)


@given(log=st.text(max_size=2000), data=st.data())
def test_a_match_anywhere_fits_and_is_included(log, data):
    content = log.encode("utf-8", "replace") * 3
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, len(content)))
    span = Span(start, end)
    message = termination.message(ExitSpecVerdict(9, span, span), 1, content, content)
    assert read(message)["exitCode"] == 9


# Everything that a decoded log can hold, with the characters that YAML treats specially more often.
TEXTS = st.text(
    st.sampled_from(" \t\n\r:#-'\"|>&*!%@`{}[]?,yn~\x00\x1b\x85\xa0\u2028\ufeff\ufffe\U0001f600")
    | st.characters(exclude_categories=["Cs"])
)


@given(st.dictionaries(st.sampled_from(["exitCode", "user", "platform"]), TEXTS | st.integers() | st.booleans()))
def test_every_text_survives_being_written_as_yaml(data):
    outer = data | {"nested": data}
    assert yaml.safe_load(yaml_text.dump(outer)) == outer
    assert yaml.load(yaml_text.dump(outer), getattr(yaml, "CSafeLoader", yaml.SafeLoader)) == outer


@pytest.mark.parametrize("text", ["yes", "null", "", " a", "a ", "a: b", "a #b", "1", "-", "Segmentation fault"])
def test_short_texts_stay_texts(text):
    written = yaml_text.dump({"key": text})
    assert yaml.safe_load(written) == {"key": text}
    assert ('"' in written) == (text != "Segmentation fault")
