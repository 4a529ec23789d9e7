"""Errors of a full memory that stand in several lines, put together: as a terminal has cut them,
behind words or by its width, or as they are printed.
"""

import re
from collections.abc import Iterator, Sequence

from trainfit.measurements.formats.pytorch import OUT_OF_MEMORY, WHOLE_ERROR
from trainfit.measurements.line_format import LONGEST_LINE, UNITS

LABEL = re.compile(r"\s*(?:\[rank(\d+)\]: ?|(\d+): )", re.ASCII)
"""What torchrun and `srun --label` put before a line of a rank."""
BEFORE = ("OutOfMemoryError:", " out of ")
"""What stands before the words that an error is known by."""
BEGINS = re.compile(rf"{OUT_OF_MEMORY.word}|(?:{'|'.join(map(re.escape, BEFORE))}).{{0,24}}$")
MOST_WRAPPED = 12
"""Lines that a terminal makes of an error."""
WORDS = frozenset(
    re.findall(
        r"[\w.-]+\w",
        "Tried to allocate, GPU [NPU] has a total capacity [capacty] of which is free, allowed, "
        "already, current active, cached, Including non-PyTorch memory, this process, Process has "
        "memory in use, Of the allocated memory, by PyTorch, with in private pools e.g., CUDA "
        "Graphs, and is reserved but unallocated",
    )
).union(UNITS)
LONGEST_WORD = 32
LAST = re.compile(r"[\w.-]*$")
FIRST = re.compile(r"[\w.-]*")
NUMBER = re.compile(r"\d+\.?\d* \.?\d")
PRINTED = "would exceed allowed memory. (out of memory)"
"""What an error of cudaMallocAsync begins with, whose figures have lines of their own."""
OF_PRINTED = re.compile(
    r"\s*(?:(?:Currently allocated|Requested|Device limit|Free \(according to CUDA\)) *:|"
    r"PyTorch limit \(set by user|: [\d.]+ \w+$)"
)
MOST_PRINTED = 6
OF_ITS_OWN = re.compile(r"\[Rank \d+\] \(after |\[?\d{4}-\d\d-\d\d[ T]\d\d:", re.ASCII)
"""How a line begins that goes on with no other: Megatron's of memory, and one with the time."""
UNFINISHED_LABEL = re.compile(r"\[(?:r|ra|ran|rank\d*\]?)?$")


def unwrapped(lines: Sequence[str]) -> Iterator[str]:
    """The lines, with an error of a full memory that a terminal has wrapped in the first of its
    own and nothing in those that it went on in; and with it those that were glued to its end.
    """
    went_on = 0
    for number, line in enumerate(lines):
        if went_on:
            went_on -= 1
            yield ""
        elif PRINTED in line:
            joined, went_on = _printed(lines, number)
            yield joined
        elif _is_cut(line):
            joined, went_on = _joined(lines, number)
            yield joined
        else:
            yield line


def _printed(lines: Sequence[str], first: int) -> tuple[str, int]:
    """An error with its figures, and how many more lines they have."""
    figures: list[str] = []
    for line in lines[first + 1 : first + 1 + MOST_PRINTED]:
        following = _without_label(line)
        if OF_PRINTED.match(following) is None:
            break
        figures.append(following)
    return " ".join([lines[first][:LONGEST_LINE], *figures]), len(figures)


def _is_cut(line: str) -> bool:
    """Whether the last error that begins in it is not whole."""
    if not any(each in line for each in (OUT_OF_MEMORY.word, *BEFORE)):
        return False
    begins = [each.start() for each in BEGINS.finditer(line, 0, LONGEST_LINE)]
    return bool(begins) and WHOLE_ERROR.match(line, begins[-1], LONGEST_LINE) is None


def _joined(lines: Sequence[str], first: int) -> tuple[str, int]:
    """As many of the errors that begin in the first line as can be made whole, and how many more
    lines that takes; the line alone where none can.
    """
    joined, found = lines[first][:LONGEST_LINE].rstrip(), (lines[first], 0)
    whole, left = 0, MOST_WRAPPED
    for number in range(first + 1, len(lines)):
        following = _without_label(lines[number])
        if OF_ITS_OWN.match(following):
            break
        joined = f"{joined}{_gap(joined, following)}{following}"
        ends, left = [each.end() for each in WHOLE_ERROR.finditer(joined)], left - 1
        begun = joined.count(OUT_OF_MEMORY.word)
        if len(ends) > whole and len(ends) == joined.count(OUT_OF_MEMORY.word, 0, ends[-1]):
            found, whole, left = (joined, number - first), len(ends), MOST_WRAPPED
        is_open = begun <= whole + 1 and (begun or left > MOST_WRAPPED - 3)
        if left == 1 or len(joined) > LONGEST_LINE or not (is_open and _goes_on(joined, ends)):
            break
    return found


def _goes_on(joined: str, ends: Sequence[int]) -> bool:
    """Whether an error is cut at its end, or what a rank has glued behind the last one."""
    glued = joined[ends[-1] :] if ends else ""
    return _is_cut(joined) or "[rank" in glued or bool(glued and UNFINISHED_LABEL.search(glued))


def _without_label(line: str) -> str:
    label = LABEL.match(line, 0, LONGEST_LINE)
    return line[label.end() if label else 0 : LONGEST_LINE].strip()


def _gap(left: str, right: str) -> str:
    """What stood between two lines: nothing where both halves make a word of an error, or a
    number, of which it never has two side by side.
    """
    left = left[-LONGEST_WORD:]
    last, first = LAST.search(left), FIRST.match(right, 0, LONGEST_WORD)
    assert last is not None
    assert first is not None
    halves = bool(last[0] and first[0]) and (last[0] + first[0]).strip(".") in WORDS
    digits = NUMBER.match(f"{last[0]} {right[:2]}")
    inside = left.endswith("(") or right.startswith((";", ",", ")"))
    return "" if halves or digits or inside or UNFINISHED_LABEL.search(left) else " "
