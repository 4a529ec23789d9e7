"""Facts that a launch leaves open, and the launch with each value that such a fact can have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from trainfit.launch.errors import LaunchError
from trainfit.launch.missing import ARGUMENTS, OVERRIDES
from trainfit.launch.overriding import merged
from trainfit.specs.launch import Launch

NUM_GPUS = "/parallelism/num_gpus"
SEQ_LENGTH = "/training/seq_length"
VOCABULARY = "/model/spec/vocab_size"
RUN = "/run"
"""Which of the runs is meant that a script starts one after another."""

Values = Mapping[str, int]
"""A value for each fact that is open, by its pointer."""
MOST_GPUS = 1024
"""More ranks than these share out some hundredths of a byte of each parameter."""
VOCABULARIES = (32_000, 262_208)
"""The smallest and the largest of the models that are bundled: Llama 2's and Gemma 3's."""
LENGTHS = tuple(2**power for power in range(9, 18))
SHORTEST, LONGEST = LENGTHS[0], LENGTHS[-1]


@dataclass(frozen=True, slots=True)
class OpenFact:
    """A fact that a launch leaves open: its field of a job, how it is asked for, and the values
    that are tried, the smallest first. Values are amounts of a unit, or `numbers` of its like.
    """

    pointer: str
    asks: str
    values: Sequence[int]
    unit: str
    numbers: bool = False

    @property
    def place(self) -> str:
        """The pointer into a launch at which the fact can be given."""
        return ARGUMENTS if self.pointer == RUN else OVERRIDES + self.pointer

    def said(self, value: str) -> str:
        """A value, or some in a row, with what it is of."""
        return f"{self.unit} {value}" if self.numbers else f"{value} {self.unit}"


FACTS: Mapping[str, OpenFact] = {
    fact.pointer: fact
    for fact in (
        OpenFact(
            NUM_GPUS,
            "the number of GPUs is not said; give /parallelism/num_gpus in overrides",
            tuple(2**power for power in range(MOST_GPUS.bit_length())),
            "GPUs",
        ),
        OpenFact(
            SEQ_LENGTH,
            "the length of a sample is not said; give /training/seq_length in overrides",
            LENGTHS,
            "tokens",
        ),
        OpenFact(
            VOCABULARY,
            "the rows of the vocabulary are not said; give /model/spec/vocab_size in overrides",
            VOCABULARIES,
            "rows",
        ),
    )
}


def open_facts(error: LaunchError) -> list[OpenFact]:
    """The facts whose lack is all that is wrong with a launch; none where something else is."""
    found: dict[str, OpenFact] = {}
    for complaint in error.complaints:
        fields = [
            each.removeprefix(OVERRIDES) for each in complaint.missing if each.startswith(OVERRIDES)
        ]
        fact = next((known for each in fields if (known := FACTS.get(each))), None)
        if fact is None:
            return []
        found[fact.pointer] = fact
    return list(found.values())


def run_fact(message: str, count: int) -> OpenFact:
    """Which of so many runs is meant."""
    asks = f"{message}; give the command of one of them in argv"
    return OpenFact(RUN, asks, range(1, count + 1), "run", numbers=True)


def cases_of(launch: Launch, facts: Sequence[OpenFact]) -> Iterator[tuple[Values, Launch]]:
    """The launch with each value of every fact."""
    for values in product(*(fact.values for fact in facts)):
        chosen = {fact.pointer: value for fact, value in zip(facts, values, strict=True)}
        overrides: dict[str, Any] = dict(launch.overrides)
        for pointer, value in chosen.items():
            overrides = merged(overrides, _as_patch(pointer, value))
        yield chosen, launch.model_copy(update={"overrides": overrides})


def _as_patch(pointer: str, value: int) -> dict[str, Any]:
    patch: Any = value
    for name in reversed(pointer.strip("/").split("/")):
        patch = {name: patch}
    return dict(patch)
