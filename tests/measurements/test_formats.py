"""Every format of a log, figure by figure: counter, unit, rank, step and window of its peak."""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.measurements.lines import (
    CURRENT,
    GB,
    GIB,
    LINES,
    MIB,
    MOST_ACTIVE,
    MOST_RESERVED,
    PEAK,
    Line,
)
from tests.measurements.reported import ERRORS, LOGS, OTHER_ERRORS, Log
from trainfit.measurements.documents import TIMELINE
from trainfit.measurements.formats.pytorch import WHOLE_ERROR
from trainfit.measurements.formats.trainer_metrics import NAME
from trainfit.measurements.line_format import MOST_BYTES
from trainfit.measurements.measurement import Measurements
from trainfit.measurements.read import (
    COMPILED,
    MOST_FIGURES,
    read_measurements,
)
from trainfit.measurements.wrapping import LABEL, MOST_WRAPPED
from trainfit.specs.artifacts import Artifact, LogFormat

EVERY_LOG = [*LOGS, *ERRORS, *OTHER_ERRORS]


def read(text: str, format: LogFormat | None = None) -> Measurements:
    return read_measurements([Artifact(name="log", text=text, format=format)])


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.format}: {line.text[:40]}")
def test_a_line_is_read(line: Line) -> None:
    found = read(f"nothing of note\n{line.text}\n")
    assert {each.counter: each.bytes for each in found.measurements} == {
        counter: round(size) for counter, size in line.bytes.items()
    }
    assert {each.format for each in found.measurements} == {line.format}
    assert {each.rank for each in found.measurements} == {line.rank}
    assert {each.step for each in found.measurements} == {line.step}
    assert {each.source.line for each in found.measurements} == {2}
    for each in found.measurements:
        peaks = each.counter.endswith("peak")
        assert (each.peak_window is not None) == peaks
    assert found.unread == []


def test_every_format_has_a_line_and_a_name() -> None:
    names = {each.format.name for each in COMPILED} | {NAME, TIMELINE}
    assert names == set(get_args(LogFormat))
    assert names == {each.format for each in LINES} | {NAME, TIMELINE}


@pytest.mark.parametrize("log", EVERY_LOG, ids=lambda log: log.source)
def test_all_is_read_that_a_reported_log_says(log: Log) -> None:
    found = read(log.text)
    told = [(e.counter, e.rank, e.step) for e in found.measurements]
    assert told == [(e.counter, e.rank, e.step) for e in log.figures]
    sizes = [each.bytes for each in found.measurements]
    assert sizes == pytest.approx([each.bytes for each in log.figures], abs=2)
    assert tuple(e.seconds for e in found.speeds if e.seconds) == pytest.approx(log.seconds)
    tokens = [e.tokens_per_second_per_gpu for e in found.speeds if e.tokens_per_second_per_gpu]
    assert tuple(tokens) == pytest.approx(log.tokens)
    assert tuple(each.count for each in found.occurrences) == log.retries
    assert len(found.unread) == log.unread


@pytest.mark.parametrize("label", ["", "[rank3]: "])
@pytest.mark.parametrize("log", ERRORS, ids=lambda log: log.source)
def test_an_error_that_a_terminal_has_wrapped_is_put_together(log: Log, label: str) -> None:
    if log.text.startswith("[rank") and label:
        return
    whole = read(label + log.text).measurements
    wrapped = re.sub(r"(.{40,78}) (?!$)", rf"\1\n{label}", label + log.text)
    found = read(f"{wrapped}\n{label}another line of 3 GiB").measurements
    assert [(e.counter, e.bytes, e.rank) for e in found] == [
        (e.counter, e.bytes, e.rank) for e in whole
    ]


@pytest.mark.parametrize("width", [40, 79, 80, 120])
@pytest.mark.parametrize("log", ERRORS, ids=lambda log: log.source)
def test_errors_that_ranks_glued_together_are_put_together_from_what_a_width_has_cut(
    log: Log, width: int
) -> None:
    found = WHOLE_ERROR.search(log.text)
    assert found is not None
    error = log.text[: found.end()].splitlines()[-1]
    sizes = [each.bytes for each in read(error).measurements]
    glued = "".join(f"[rank{rank}]: {LABEL.sub('', error)}" for rank in (3, 11))
    cut = [glued[at : at + width] for at in range(0, len(glued), width)]
    for lines in (cut, [each.strip() for each in cut]):
        both = read("\n".join([*lines, "another line of 3 GiB"]))
        assert [(each.bytes, each.rank) for each in both.measurements] == [
            (size, rank) for rank in (3, 11) for size in sizes
        ]
        assert [each.text for each in both.unread] == ["another line of 3 GiB"]


GOLDEN = {
    "mem-allocated-bytes": {"start_step": 1, "values": {"1": 1000.0, "6": "nan"}},
    "mem-max-allocated-bytes": {"start_step": 1, "values": {"1": 2000, "6": 3000.0}},
    "lm loss": {"values": {"1": 10.9}},
}


@pytest.mark.parametrize(
    ("document", "figures"),
    [
        (GOLDEN, [(CURRENT, 1000, 1), (PEAK, 2000, 1), (PEAK, 3000, 6)]),
        (
            {"alloc": 12.346, "max_alloc": 55.012, "max_reserved": 60.5, "0": {"lm loss": 1.0}},
            [
                (CURRENT, 12.346 * GB, None),
                (PEAK, 55.012 * GB, None),
                (MOST_RESERVED, 60.5 * GB, None),
            ],
        ),
        ([[1, 2, 3], [[0, 10, 5], [0, 20, 7], [0, 4, 0]]], [(PEAK, 27, None), (CURRENT, 4, None)]),
        (
            {
                "global_step": 500,
                "log_history": [
                    {"memory(GiB)": 4.25, "step": 1},
                    {
                        "loss": 1.3,
                        "memory/max_active (GiB)": 124.5,
                        "memory/max_allocated (GiB)": 122.75,
                        "memory/device_reserved (GiB)": 0,
                        "step": 2,
                    },
                    {"memory(GiB)": 4.5},
                ],
            },
            [
                (MOST_RESERVED, 4.25 * GIB, 1),
                (MOST_ACTIVE, 124.5 * GIB, 2),
                (PEAK, 122.75 * GIB, 2),
            ],
        ),
        ({"max_alloc": 55.0, "gpu": "another program's"}, []),
        ([[1, 2], [[0, 10], [0, 2.5]]], []),
        ([[1], [[-5]]], []),
        ([[], []], []),
    ],
    ids=[
        "megatron",
        "bridge",
        "timeline",
        "trainer",
        "unknown",
        "no bytes",
        "less than none",
        "empty",
    ],
)
def test_a_document_is_read_whole(document: Any, figures: list[tuple[str, float, int]]) -> None:
    for indent in (None, 2):
        found = read(json.dumps(document, indent=indent)).measurements
        assert [(e.counter, e.bytes, e.step) for e in found] == figures


def test_a_document_without_end_is_no_document() -> None:
    assert read("[" * 100_000).measurements == []


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.text[:40])
def test_a_format_that_is_named_alone_is_read(line: Line) -> None:
    others = [each for each in get_args(LogFormat) if each != line.format]
    assert all(not read(line.text, other).measurements for other in others)
    assert read(line.text, line.format).measurements  # type: ignore[arg-type]


def test_lines_that_ranks_glued_together_are_read_apart() -> None:
    first = "[Rank 0] (after 2 iterations) memory (GB) | mem-allocated-gigabytes: 12.5 | "
    second = "[Rank 3] (after 2 iterations) memory (GB) | mem-max-allocated-gigabytes: 60.25"
    found = read(f"{first}mem-allocated-count: 433{second}")
    assert [(each.rank, each.counter, each.bytes) for each in found.measurements] == [
        (0, "allocated_bytes.all.current", 12_500_000_000),
        (3, "allocated_bytes.all.peak", 60_250_000_000),
    ]


@pytest.mark.parametrize("label", ["", "[rank1]: "])
def test_an_error_in_lines_of_its_own_is_put_together(label: str) -> None:
    error = OTHER_ERRORS[0]
    text = "".join(f"{label}{line}\n" for line in error.text.splitlines())
    found = read(f"{text}the device limit is 3 GiB")
    assert [each.bytes for each in found.measurements] == [round(e.bytes) for e in error.figures]
    assert {each.source.line for each in found.measurements} == {1}
    assert {each.rank for each in found.measurements} == {1 if label else None}
    assert [each.source.line for each in found.unread] == [8]


@pytest.mark.parametrize("label", ["[rank12]:", "12: "])
def test_launchers_say_whose_a_line_is(label: str) -> None:
    found = read(f"{label}(after 2 iterations) memory (MB) | allocated: 1.0")
    assert [each.rank for each in found.measurements] == [12]


def test_the_last_digit_that_counts_is_told() -> None:
    (plain,) = read("(after 2 iterations) memory (MB) | allocated: 18310.55").measurements
    assert plain.resolution_bytes == round(MIB / 100)
    bridge = "(after 2 iterations) memory (GB) | mem-allocated-gigabytes: 12.5"
    (rounded,) = read(bridge).measurements
    assert rounded.resolution_bytes == 1_000_000


def test_steps_have_a_speed() -> None:
    text = (
        " [2025-11-02 10:00:00] iteration       10/     100 | consumed samples:          320 | "
        "elapsed time per iteration (ms): 4821.3 | throughput per GPU (TFLOP/s/GPU): 421.7 |\n"
        "step:  7  loss:  8.12  memory: 45.67GiB(48.12%)  wps: 7,123  mfu: 41.69%"
    )
    first, second = read(text).speeds
    assert (first.step, first.seconds, first.tflops_per_gpu) == (10, 4.8213, 421.7)
    assert (second.step, second.tokens_per_second_per_gpu) == (7, 7123)


def test_retries_are_counted() -> None:
    texts = ("2 CUDA memory allocation retries.", '{"num_alloc_retries": 2, "num_ooms": 0}')
    first, second = (read(text).occurrences for text in texts)
    assert [(each.event, each.count) for each in first] == [("num_alloc_retries", 2)]
    assert [(each.event, each.count) for each in second] == [
        ("num_alloc_retries", 2),
        ("num_ooms", 0),
    ]


def test_a_moment_is_named_in_the_line_before_or_in_front() -> None:
    (first,) = read("before forward\nMA 1.0 GB").measurements
    assert first.moment == "before forward"
    (second,) = read("INFO: Before rollout, memory allocated (GB): 1.23").measurements
    assert second.moment == "Before rollout"


METRICS = """
  before_init_mem_gpu        =      100MB
  init_mem_gpu_alloc_delta   =     2000MB
  train_mem_gpu_alloc_delta  =     4000MB
  train_mem_gpu_peaked_delta =     1000MB
"""


def test_a_peak_of_trainer_is_the_sum_of_what_it_stands_on() -> None:
    (peak,) = read(METRICS).measurements
    assert (peak.counter, peak.bytes) == ("allocated_bytes.all.peak", 7100 * MIB)
    assert peak.resolution_bytes == 4 * MIB
    found = read(METRICS.replace("before_init", "whatever"))
    assert found.measurements == []
    assert "before_init_mem_gpu" in found.unread[0].why
    less = read(METRICS.replace("4000MB", "-150MB"))  # a stage that gave back more than it took
    assert [each.bytes for each in less.measurements] == [(7100 - 4150) * MIB]
    for absurd in ("9" * 15, "-4000"):
        found = read(METRICS.replace("4000MB", f"{absurd}MB"))
        assert found.measurements == []
        assert "no peak that a card has" in found.unread[0].why


def test_what_is_no_measurement_is_listed() -> None:
    text = (
        "Theoretical memory footprints: weight and optimizer=12345.67 MB\n"
        "the memory of this one is 3 GiB\n"
        "[Rank 0] (after 1 iterations) memory (MB) | allocated: 0.0 | max allocated: 0.0\n"
        "nothing of note\n"
        "INFO log_hooks.py: 277: Rank: 0; [ep: 0] iter: 1; btime(ms): 3498; peak_mem(M): 4176;\n"
    )
    found = read(text)
    assert found.measurements == []
    assert [(each.source.line, each.why) for each in found.unread] == [
        (1, "the program's own estimate, and no measurement"),
        (2, "no format knows it"),
        (3, "every counter is zero"),
        (5, "no format knows it"),
    ]


def test_of_figures_without_end_the_first_and_the_last_are_read() -> None:
    """As long runs print them, with the error that they end with."""
    many = 2 * MOST_FIGURES
    text = "1MiB / 2MiB " * 1000 + "\n" + "1MiB / 2MiB\n" * many + ERRORS[0].text
    found = read(text)
    assert len(found.measurements) < 2 * MOST_FIGURES
    (left_out,) = found.unread
    assert f"more than {MOST_FIGURES} figures" in left_out.why
    told = [each for each in found.measurements if each.format == "out of memory"]
    assert [each.bytes for each in told] == [round(each.bytes) for each in ERRORS[0].figures]
    assert {each.source.line for each in told} == {many + 2}


ABSURD = [
    "9" * 5000,
    "1e400",
    "1e-999999999",
    "1e99",
    "-5.0",
    "nan",
    "inf",
    "1.2.3",
    "٣",
    "1,,2",
    "",
]


@given(st.sampled_from([*LINES, *EVERY_LOG]), st.data())
def test_no_number_is_too_absurd_to_be_read_past(log: Line | Log, data: st.DataObject) -> None:
    pieces = re.split(r"\d[\d.]*", log.text)
    numbers = re.findall(r"\d[\d.]*", log.text)
    numbers = [data.draw(st.sampled_from([each, *ABSURD])) for each in numbers]
    text = "".join(left + right for left, right in zip(pieces, [*numbers, ""], strict=True))
    found = read(text)
    for each in found.measurements:
        assert 0 <= each.bytes < MOST_BYTES
        assert each.step is None or each.step < 10**9
        assert each.rank is None or each.rank < 10**9


@pytest.mark.parametrize("number", ["9" * 5000, "1e400", "NaN", "-1", "true", '"٣"', "1e308"])
def test_no_number_of_a_document_is_too_absurd(number: str) -> None:
    for text in (
        f'{{"max_alloc": {number}, "alloc": {number}}}',
        f'{{"log_history": [{{"step": {number}, "memory(GiB)": 1}}, {{"step": 1, "memory(GiB)": '
        f"{number}}}]}}",
        f'{{"mem-allocated-bytes": {{"values": {{"{"9" * 5000}": 1, "٣": 2, "3": {number}}}}}}}',
        f"[[1], [[{number}]]]",
    ):
        assert all(each.bytes == 2**30 and each.step is None for each in read(text).measurements)


def test_a_line_of_its_own_is_no_part_of_an_error_that_was_torn() -> None:
    whole = (
        "CUDA out of memory. Tried to allocate 32.00 GiB (GPU 1; 79.20 GiB total capacity; 54.76 "
        "GiB already allocated; 22.56 GiB free; 55.44 GiB reserved in total by PyTorch) "
    )
    following = "[Rank 1] (after 1 iterations) memory (MB) | allocated: 54250.9 | reserved: 61480.0"
    found = read(
        f"{whole}CUDA out of memory. Tried to allocate 32.00 GiB (GPU 0; 54.76\n{following}"
    )
    lines = {each.source.line for each in found.measurements if each.format == "megatron"}
    assert lines == {2}


UNITS = (1, 1024, MIB, GIB, 1024 * GIB, 10**3, 10**6, 10**9, 10**12)
NUMBER = re.compile(r"\d+(?:\.\d+)?")


@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=6), st.data())
def test_of_what_was_torn_and_glued_no_figure_comes_that_is_not_there(
    lines: list[Line], data: st.DataObject
) -> None:
    cut = [
        line.text[data.draw(st.integers(0, 20)) : data.draw(st.integers(0, len(line.text)))]
        for line in lines
    ]
    text = data.draw(st.sampled_from(["", "\n", " "])).join(cut)
    assert_is_written(text)


@given(st.lists(st.sampled_from(EVERY_LOG), min_size=2, max_size=4), st.data())
def test_of_logs_that_were_interleaved_no_figure_comes_that_is_not_there(
    logs: list[Log], data: st.DataObject
) -> None:
    """Lines of several runs in any order of theirs, some wrapped where a terminal would."""
    width = data.draw(st.sampled_from([30, 80, 1000]))
    left = [
        [
            line[at : at + width]
            for line in each.text.splitlines()
            for at in range(0, len(line), width)
        ]
        for each in logs
    ]
    lines: list[str] = []
    while left := [each for each in left if each]:
        lines.append(left[data.draw(st.integers(0, len(left) - 1))].pop(0))
    assert_is_written("\n".join(lines))


def assert_is_written(text: str) -> None:
    """Every figure is a number of its line, an error's of those that it was wrapped into, where a
    number may be cut too; what axolotl prints beyond another is the sum of both.
    """
    written = text.splitlines()
    for each in read(text).measurements:
        first = each.source.line - 1
        lines = written[first : first + (MOST_WRAPPED if each.format == "out of memory" else 1)]
        numbers = [float(n) for gap in (" ", "") for n in NUMBER.findall(gap.join(lines))]
        if each.format == "axolotl":
            starts = range(len(numbers))
            numbers = [sum for at in starts for sum in accumulate(numbers[at : at + 3])]
        sizes = [number * unit for number in numbers for unit in UNITS]
        assert any(abs(each.bytes - size) <= 2 for size in sizes), each
