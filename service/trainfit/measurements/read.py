"""Texts that runs have printed -> measurements.

A line may hold several records, glued together where several ranks wrote at once: each goes from
its marker to the next one. Nothing is taken from a line that no format knows.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from trainfit.measurements.documents import read_document
from trainfit.measurements.formats import (
    device,
    megatron,
    pytorch,
    recipes,
    reinforcement,
    trainer_metrics,
    trainers,
)
from trainfit.measurements.formats.trainer_metrics import Metric, metrics_of, peak_of
from trainfit.measurements.line_format import (
    LONGEST_LINE,
    MOST_BYTES,
    Bytes,
    CompiledFormat,
    Figure,
    Once,
    SpeedPattern,
    Times,
    compiled,
    count_of,
    number_of,
    resolution,
)
from trainfit.measurements.measurement import (
    Measurement,
    Measurements,
    Occurrences,
    Speed,
    Unread,
)
from trainfit.measurements.wrapping import LABEL, unwrapped
from trainfit.specs.artifacts import Artifact, LogFormat, Place

Formats = tuple[CompiledFormat, ...]
COMPILED: Formats = tuple(
    compiled(each)
    for each in (
        *megatron.FORMATS,
        *trainers.FORMATS,
        *recipes.FORMATS,
        *reinforcement.FORMATS,
        *pytorch.FORMATS,
        *device.FORMATS,
    )
)
LONGEST_TEXT = 200
LONGEST_MOMENT = 80
MOST_UNREAD = 200
MOST_FIGURES = 20_000
"""Half of them before what is left out, where there are more, and as many in the end."""
LAST_LINES = 5_000
"""Of a long log, where the error stands that it ends with."""

SPEAKS = re.compile(
    r"mem|[GM]iB|\bMA |elapsed.time.per|\b(?:tps|wps):|Tried to|reserved|num_(?:ooms|alloc)|_FB_|"
    r"bytes\.all|CUDA OOMs|gpu_resources:|GPU utilization:|STATUS_ALLOC_FAILED|Malloc ret",
    re.IGNORECASE,
)
"""What any line has that says something of memory or speed."""
OF_MEMORY = re.compile(
    r"memory|\bmem[ _]usage\b|(?:max|peak)[ _]mem\b|GiB|MiB|\b(?:allocated|reserved): *\d",
    re.IGNORECASE,
)
TABLE = re.compile(
    r"\| +(?:PyTorch CUDA memory summary|from (?:large|small) pool)\b|\| Memory Usage *$|"
    r"\|[^|]*\| +Memory-Usage +\||\| .* GPU Memory +\||"
    r"\| +\d+ +(?:N/A +N/A +)?\d+ +[CG+]+ .* \d+MiB \|"
)
"""Lines of memory_summary() and nvidia-smi that tell no more than the others, and headings."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m|\*\*")
AFTER = re.compile(r"after (\d+) iterations?\b|for iteration (\d+)", re.ASCII)
SEPARATOR = re.compile(r"[:|\]]")
RANK = re.compile(
    r"\[RANK:(\d+)\]|\[rank(\d+)\]:|\[rank-(\d+)/\d+\]|\[rank=(\d+)\]|"
    r"\[Rank (\d+) \| Local Rank \d+\]",
    re.ASCII,
)
"""Whose what follows in a line is: as axolotl says it, torchrun of one that it glued on, Primus,
workers of NeMo-RL, and verl.
"""
PREFIX = re.compile(r"^(?:\[[^\]]*\] *)+")
"""Time, level and place, that a logger puts before a line's words."""
NO_MEASUREMENTS = (
    (
        re.compile(r"Theoretical memory footprints"),
        "the program's own estimate, and no measurement",
    ),
    (re.compile(r"\bCPU [\w ]{0,20}Memory\b|\bhost memory\b"), "the host's memory, and no card's"),
)


class Record(NamedTuple):
    """The part of a line that one format reads."""

    found: CompiledFormat
    marker: re.Match[str]
    text: str
    in_front: str
    rank: int | None
    before: str
    source: Place


def read_measurements(artifacts: Iterable[Artifact]) -> Measurements:
    """All that the texts say, in their order."""
    read = Measurements([], [], [], [])
    for each in artifacts:
        formats = _formats(each.format)
        if (document := read_document(each)) is not None:
            read.measurements.extend(document[:MOST_FIGURES])
            continue
        metrics: dict[str, Metric] = {}
        lines = each.text.splitlines()
        read_until = 0
        for first, most in ((0, MOST_FIGURES // 2), (len(lines) - LAST_LINES, MOST_FIGURES)):
            begin = max(first, read_until)
            _leave_out(each.name, lines, read_until, begin, read)
            read_until = _lines(each.name, lines, begin, most, formats, metrics, read)
        _leave_out(each.name, lines, read_until, len(lines), read)
        match peak_of(metrics) if each.format in (None, trainer_metrics.NAME) else None:
            case Measurement() as peak:
                read.measurements.append(peak)
            case Unread() as unread:
                _leave(read, unread)
    return read


def _formats(name: LogFormat | None) -> Formats:
    return COMPILED if name is None else tuple([e for e in COMPILED if e.format.name == name])


def _lines(
    name: str,
    lines: Sequence[str],
    begin: int,
    most: int,
    formats: Formats,
    metrics: dict[str, Metric],
    read: Measurements,
) -> int:
    """Read the lines from there on while there are no more figures than `most`, and return how many
    lines are done with.
    """
    before = ""
    for number, written in enumerate(unwrapped(lines[begin:]), begin + 1):
        if len(read.measurements) + len(read.speeds) > most:
            return number - 1
        source = Place(name=name, line=number)
        before = _line(written, source, before, formats, metrics, read)
    return len(lines)


def _leave_out(name: str, lines: Sequence[str], begin: int, end: int, read: Measurements) -> None:
    """Say which lines are not read since there are too many figures."""
    if begin < end:
        why = (
            f"there are more than {MOST_FIGURES} figures: lines {begin + 1:,} to {end:,} are left "
            "out; send them by themselves"
        )
        source = Place(name=name, line=begin + 1)
        read.unread.append(Unread(source, lines[begin][:LONGEST_TEXT], why))


def _line(
    written: str,
    source: Place,
    before: str,
    formats: Formats,
    metrics: dict[str, Metric],
    read: Measurements,
) -> str:
    """Read a line, and return what the next one has before it."""
    if SPEAKS.search(written, 0, LONGEST_LINE) is None:
        return written[:LONGEST_TEXT]
    if len(written) > LONGEST_LINE:
        why = f"it is longer than {LONGEST_LINE} characters"
        _leave(read, Unread(source, written[:LONGEST_TEXT], why))
        return ""
    line = COLOURS.sub("", written)
    metrics_here = dict(metrics_of(line, source))
    metrics |= metrics_here
    records = list(_records(line, before, source, formats))
    told = [_take(each, read) for each in records]
    of_memory = OF_MEMORY.search(PREFIX.sub("", line)) and not TABLE.match(line)
    if of_memory and not (any(told) or metrics_here):
        reasons = [why for pattern, why in NO_MEASUREMENTS if pattern.search(line)]
        why = reasons[0] if reasons else "no format knows it"
        _leave(read, Unread(source, line[:LONGEST_TEXT], why))
    return line[:LONGEST_TEXT]


def _records(line: str, before: str, source: Place, formats: Formats) -> Iterator[Record]:
    """The records of a line: of two formats that begin at one place, the first that is listed."""
    label = LABEL.match(line)
    labelled = None if label is None else count_of(label[1] or label[2])
    markers: dict[int, tuple[CompiledFormat, re.Match[str]]] = {}
    for each in formats:
        if each.format.word not in line or (each.behind and not each.behind.search(before)):
            continue
        for marker in each.marker.finditer(line):
            markers.setdefault(marker.start(), (each, marker))
    starts = sorted(markers)
    for start, end in pairwise([*starts, len(line)]):
        found, marker = markers[start]
        named = marker.groupdict().get("rank")
        ranks = [named] if named else ["".join(each) for each in RANK.findall(line[:start])[-1:]]
        rank = count_of(ranks[0]) if ranks else labelled
        yield Record(found, marker, line[start:end], line[:start], rank, before, source)


def _take(record: Record, read: Measurements) -> bool:
    """Add what a record says, and return whether that is anything."""
    format, groups = record.found.format, record.marker.groupdict()
    moment = _moment(record, groups)
    step = _step(groups, moment)
    paces: dict[str, float] = {}
    found: list[Measurement] = []
    counted = len(read.occurrences)
    for figure, pattern in record.found.figures:
        match = _behind_its_words(figure, pattern, record.text, found)
        if match is None:
            continue
        match figure:
            case Bytes() if not figure.is_of_bytes(match):
                why = "these are no bytes, of which PyTorch has whole blocks; it names no unit"
                _leave(read, Unread(record.source, record.text[:LONGEST_TEXT], why))
            case Bytes():
                measured = _measured(figure, match, record, step, moment, found)
                found += [] if measured is None else [measured]
            case SpeedPattern(_, what, unit, units):
                paces[what] = number_of(match[1]) * unit * (1 if units is None else units[match[2]])
            case Times(_, event):
                count = int(match[1])
                read.occurrences.append(
                    Occurrences(event, count, record.rank, step, format.name, record.source)
                )
            case Once(event):
                read.occurrences.append(
                    Occurrences(event, 1, record.rank, step, format.name, record.source)
                )
    if found and not any(each.bytes for each in found):
        why = "every counter is zero"
        _leave(read, Unread(record.source, record.text[:LONGEST_TEXT], why))
    else:
        read.measurements.extend(found)
    if paces:
        read.speeds.append(
            Speed(
                step,
                record.rank,
                paces.get("seconds"),
                paces.get("tokens_per_second_per_gpu"),
                paces.get("tflops_per_gpu"),
                format.name,
                record.source,
            )
        )
    return bool(found or paces or len(read.occurrences) > counted)


def _behind_its_words(
    figure: Figure, pattern: re.Pattern[str], text: str, found: Iterable[Measurement]
) -> re.Match[str] | None:
    """Where the figure stands; of one that has to hold others, none where it was said already, or
    where several or none may be it.
    """
    if not (isinstance(figure, Bytes) and figure.holds):
        return pattern.search(text)
    told = {each.counter: each for each in found}
    if figure.counter in told or not told.keys() >= set(figure.holds):
        return None
    least = sum(told[counter].bytes - told[counter].resolution_bytes for counter in figure.holds)
    large = []
    for each in pattern.finditer(text):
        unit = figure.unit_of(each)
        if number_of(each[1]) * unit + resolution(each[1], unit, figure.digits) >= least:
            large.append(each)
    return large[0] if len(large) == 1 else None


def _measured(
    figure: Bytes,
    match: re.Match[str],
    record: Record,
    step: int | None,
    moment: str,
    found: Iterable[Measurement],
) -> Measurement | None:
    """The figure in bytes; None where the driver has not answered, or where it is more than what
    is not among those `found`.
    """
    unit = figure.unit_of(match)
    size = round(number_of(match[1]) * unit)
    exact = resolution(match[1], unit, figure.digits)
    if figure.above:
        below = {each.counter: each for each in found}
        base = next((below[counter] for counter in figure.above if counter in below), None)
        if base is None:
            return None
        size, exact = size + base.bytes, exact + base.resolution_bytes
    if size >= MOST_BYTES or (figure.counter == "process_used" and not size):
        return None
    return Measurement(
        counter=figure.counter,
        bytes=size,
        resolution_bytes=exact,
        peak_window=figure.window,
        rank=record.rank,
        step=step,
        moment=moment,
        format=record.found.format.name,
        source=record.source,
    )


def _moment(record: Record, groups: dict[str, str | None]) -> str:
    format = record.found.format
    match format.moment_is:
        case "a line before":
            words = PREFIX.sub("", record.before)
        case "in front":
            words = SEPARATOR.split(record.in_front)[-1]
        case _:
            words = groups.get("moment") or ""
    return words.strip()[-LONGEST_MOMENT:] or format.moment


def _step(groups: dict[str, str | None], moment: str) -> int | None:
    if (step := groups.get("step")) is not None:
        return count_of(step)
    after = AFTER.search(moment)
    return None if after is None else count_of(after[1] or after[2])


def _leave(read: Measurements, unread: Unread) -> None:
    """Once of a line and a reason."""
    again = any((each.source, each.why) == (unread.source, unread.why) for each in read.unread[-1:])
    if len(read.unread) < MOST_UNREAD and not again:
        read.unread.append(unread)
