"""What a script consists of in bash's own grammar: commands, and the words they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trainfit.launch.shell.piece import Piece


@dataclass(frozen=True, slots=True)
class Literal:
    """Text that stands for itself. What is quoted is neither split nor matched with file names.

    Of a text that the shell put together, a piece may be one that is not known.
    """

    pieces: tuple[Piece, ...]
    quoted: bool


@dataclass(frozen=True, slots=True)
class Quoted:
    """Parts between double quotes."""

    parts: tuple[Part, ...]
    place: Piece


@dataclass(frozen=True, slots=True)
class Parameter:
    """$name and ${...}: what stands before the name, its index, an operator and its operands."""

    name: str
    place: Piece
    written: str
    prefix: str = ""
    index: Word | None = None
    operator: str = ""
    operand: Word | None = None
    second: Word | None = None
    """Behind the second : or / of ${X:from:length} and ${X/pattern/text}."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """$((...)) with the expression as a word that is expanded first."""

    expression: Word
    place: Piece


@dataclass(frozen=True, slots=True)
class Substitution:
    """$(...), `...`, and with an arrow <(...) and >(...)."""

    body: CommandList
    place: Piece
    written: str
    arrow: str = ""


Part = Literal | Quoted | Parameter | Arithmetic | Substitution


@dataclass(frozen=True, slots=True)
class Word:
    parts: tuple[Part, ...]
    place: Piece

    @property
    def bare(self) -> str | None:
        """The text of a word that is nothing but unquoted text: of a keyword, for one."""
        if len(self.parts) == 1 and isinstance(self.parts[0], Literal):
            literal = self.parts[0]
            if not literal.quoted and all(piece.unknown is None for piece in literal.pieces):
                return "".join(piece.text for piece in literal.pieces)
        return None


@dataclass(frozen=True, slots=True)
class Items:
    """The words between the brackets of NAME=(...); some have an index."""

    items: tuple[Assignment | Word, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """name=value, name[index]=value, name+=value; of an item in an array, the name is empty."""

    name: str
    index: Word | None
    adds: bool
    value: Word | Items
    place: Piece
    own: bool = True
    """Whether the value is not made of the variable itself."""


@dataclass(slots=True)
class Redirect:
    """An operator with its target; of a here-document, `body` is what stands below."""

    operator: str
    descriptor: str
    target: Word
    place: Piece
    body: Word | None = None


@dataclass(frozen=True, slots=True)
class Simple:
    """A command with the assignments before it; those behind `declare` are among its words."""

    assignments: tuple[Assignment, ...]
    words: tuple[Word | Assignment, ...]
    place: Piece


@dataclass(frozen=True, slots=True)
class CommandPipeline:
    commands: tuple[Node, ...]
    negated: bool
    place: Piece


@dataclass(frozen=True, slots=True)
class Chain:
    """Commands with && and || between them."""

    first: Node
    others: tuple[tuple[str, Node], ...]
    place: Piece


@dataclass(frozen=True, slots=True)
class Background:
    command: Node
    place: Piece


@dataclass(frozen=True, slots=True)
class CommandList:
    commands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Redirected:
    command: Node
    redirects: tuple[Redirect, ...]
    place: Piece


@dataclass(frozen=True, slots=True)
class Subshell:
    body: CommandList
    place: Piece


@dataclass(frozen=True, slots=True)
class If:
    """Each branch with its condition, and what stands behind else."""

    branches: tuple[tuple[CommandList, CommandList], ...]
    otherwise: CommandList | None
    place: Piece


@dataclass(frozen=True, slots=True)
class While:
    condition: CommandList
    body: CommandList
    until: bool
    place: Piece


@dataclass(frozen=True, slots=True)
class For:
    """for, and select; without `in`, the words are the parameters."""

    name: str
    words: tuple[Word, ...] | None
    body: CommandList
    selects: bool
    place: Piece


@dataclass(frozen=True, slots=True)
class CountingFor:
    start: Word
    condition: Word
    step: Word
    body: CommandList
    place: Piece


@dataclass(frozen=True, slots=True)
class CaseItem:
    patterns: tuple[Word, ...]
    body: CommandList
    end: str
    """;; or ;& or ;;&"""


@dataclass(frozen=True, slots=True)
class Case:
    word: Word
    items: tuple[CaseItem, ...]
    place: Piece


@dataclass(frozen=True, slots=True)
class Calculation:
    """((...)) as a command."""

    expression: Word
    place: Piece


@dataclass(frozen=True, slots=True)
class Not:
    inner: Test


@dataclass(frozen=True, slots=True)
class Both:
    left: Test
    right: Test


@dataclass(frozen=True, slots=True)
class Either:
    left: Test
    right: Test


@dataclass(frozen=True, slots=True)
class ConditionalPrimary:
    """One question within [[ ]]: of one word, with an operator before it or none, or of two."""

    operator: str
    words: tuple[Word, ...]


Test = Not | Both | Either | ConditionalPrimary


@dataclass(frozen=True, slots=True)
class Condition:
    """[[ ... ]]"""

    test: Test
    written: str
    place: Piece


@dataclass(frozen=True, slots=True)
class Definition:
    """A function."""

    name: str
    body: Node
    place: Piece


Node = (
    Simple
    | CommandPipeline
    | Chain
    | Background
    | CommandList
    | Redirected
    | Subshell
    | If
    | While
    | For
    | CountingFor
    | Case
    | Calculation
    | Condition
    | Definition
)


@dataclass(frozen=True, slots=True)
class ParsedScript:
    """A text as its complete commands, each of which is read once those before it have run.

    `extended` has for each where it asks for the option extglob, if it does. `own` are the names
    that it gives values of its own, `misread` says where it ceases to read as bash.
    """

    commands: Sequence[Node]
    extended: Sequence[Piece | None]
    own: frozenset[str]
    misread: tuple[Piece, str] | None = field(default=None)
