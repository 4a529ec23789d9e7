"""The texts of one launch's scripts: each is parsed once, whichever ways they are followed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from trainfit.launch.shell.parser import Parser
from trainfit.launch.shell.source import Source
from trainfit.launch.shell.state import Budget
from trainfit.launch.shell.syntax import Literal, ParsedScript, Part, Quoted, Word
from trainfit.launch.shell.text import Text


class _Constant(NamedTuple):
    """What a word stands for, and what it cost; the word is kept, as its identity is the key."""

    word: Word
    texts: Sequence[Text]
    steps: int
    length: int


class Texts:
    """What texts are parsed into, and what those of their words stand for that ask nothing of the
    shell. All of it is charged to the budget again each time.
    """

    def __init__(self) -> None:
        self._parsed: dict[Source, ParsedScript] = {}
        self._constants: dict[tuple[int, bool | None], _Constant] = {}

    def parsed(self, source: Source) -> ParsedScript:
        """The commands of a text. Raises ShellError."""
        found = self._parsed.get(source)
        if found is None:
            found = self._parsed[source] = Parser(source).program()
        return found

    def words(
        self,
        word: Word,
        budget: Budget,
        noglob: bool | None,
        expand: Callable[[Word], Sequence[Text]],
    ) -> Sequence[Text]:
        """The texts that a word stands for, which `expand` finds; `noglob` says whether it is no
        pattern of file names, None that it is one text. Raises ShellError.
        """
        key = (id(word), noglob)
        held = self._constants.get(key)
        if held is not None:
            budget.spend_again(held.steps, held.length)
            return held.texts
        steps, length = budget.steps, budget.length
        texts = expand(word)
        if all(map(_is_constant, word.parts)):
            spent = budget.steps - steps, budget.length - length
            self._constants[key] = _Constant(word, texts, *spent)
        return texts


def _is_constant(part: Part) -> bool:
    """Whether it stands for the same whatever the shell holds."""
    if isinstance(part, Quoted):
        return all(map(_is_constant, part.parts))
    return isinstance(part, Literal)
