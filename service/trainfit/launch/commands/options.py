"""The options of a program that starts another one, up to where that one begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trainfit.launch.program import Word
from trainfit.launch.settings import Setting


@dataclass(frozen=True, slots=True)
class Parsed:
    """Options as they are given, by their names without dashes, and the words behind them.

    `stray` are options that the program does not have and words where an option should stand.
    """

    given: Sequence[tuple[str, Setting]]
    rest: Sequence[Word]
    stray: Sequence[Setting] = ()

    @property
    def options(self) -> Mapping[str, Setting]:
        """The options by their names; of one that is given twice, the last counts."""
        return dict(self.given)

    def get(self, name: str) -> Setting | None:
        return self.options.get(name)


@dataclass(frozen=True, slots=True)
class Interface:
    """What a program takes before the one that it starts; names without dashes, with _ in them.

    `valued` take a value, `pairs` two, `switches` none. `abbreviated` lets a long name be cut
    short, as argparse does.
    """

    valued: frozenset[str]
    switches: frozenset[str] = frozenset()
    pairs: frozenset[str] = frozenset()
    aliases: Mapping[str, str] = field(default_factory=dict)
    abbreviated: bool = False

    @property
    def names(self) -> frozenset[str]:
        return self.valued | self.switches | self.pairs

    def parse(self, words: Sequence[Word]) -> Parsed:
        """Read options up to the first word that is none; `--` ends them."""
        given: list[tuple[str, Setting]] = []
        stray: list[Setting] = []
        at = 0
        while at < len(words):
            word = words[at]
            if word.text == "--":
                return Parsed(given, words[at + 1 :], stray)
            if not word.text.startswith("-") or word.text == "-":
                if not self._may_be_options(word, words[at + 1 :]):
                    break
                stray.append(Setting.of(word.text, word))
                at += 1
                continue
            name, setting, length = self.option(words[at : at + 3])
            if name in self.names:
                given.append((name, setting))
            else:
                stray.append(setting)
            at += length
        return Parsed(given, words[at:], stray)

    def _may_be_options(self, word: Word, behind: Sequence[Word]) -> bool:
        """Whether an unknown word stands for options rather than for the program that they precede:
        what follows is no option, or one of these.
        """
        whole = word.text.startswith("$") and word.text.endswith(("}", ")"))
        if word.unknown is None or not whole or not behind:
            return False
        another = behind[0].text.startswith("-")
        return not another or self.option(behind[:3])[0] in self.names

    def option(self, words: Sequence[Word]) -> tuple[str, Setting, int]:
        """The name of the option that begins here, its setting and its length in words."""
        word, *behind = words
        written, sign, value = word.text.partition("=")
        name, attached = self._named(written)
        if sign or attached:
            return name, Setting.of(written, word, value if sign else attached), 1
        taken = 2 if name in self.pairs else 1
        if name in self.switches or len(behind) < taken:
            return name, Setting.of(written, word, True), 1
        if name not in self.names and _begins_program(behind[0]):
            return name, Setting.of(written, word, True), 1
        text = " ".join(each.text for each in behind[:taken])
        unknown = next((each.unknown for each in behind[:taken] if each.unknown), None)
        return name, Setting(written, text, word.file, word.line, unknown), 1 + taken

    def _named(self, written: str) -> tuple[str, str]:
        """The name of an option, and the value that is written on to a short one."""
        name = written.lstrip("-").replace("-", "_")
        name = self.aliases.get(name, name)
        if name in self.names:
            return name, ""
        if not written.startswith("--") and name[:1] in self.valued:
            return self.aliases.get(name[:1], name[:1]), written[2:]
        if not written.startswith("--") and name and self.switches.issuperset(name):
            return name[:1], ""  # switches of one letter in one word: -lu
        if self.abbreviated and written.startswith("--"):
            known = [each for each in self.names if each.startswith(name)]
            if len(known) == 1:
                return known[0], ""
        return name, ""


def names(listed: str) -> frozenset[str]:
    """Names that stand in a text with blanks between."""
    return frozenset(listed.split())


def _begins_program(word: Word) -> bool:
    """Whether a word behind an option that is not known is no value of it."""
    return word.text.startswith("-") or word.text.endswith((".py", ".sh"))
