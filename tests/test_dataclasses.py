"""Dataclasses that write their methods late behave as the standard library's do."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from trainfit.dataclasses import dataclass

GIVEN: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, "b"), {}),
    ((1,), {"numbers": [3]}),
    ((2,), {"aside": 9}),
    ((), {"first": 1, "second": "b", "numbers": [], "aside": 2}),
    ((), {}),
    ((1, "b", [], 1, 5), {}),
    ((1,), {"unknown": 1}),
]


def _plain(maker: Callable[..., Any], **how: Any) -> type:
    class Plain:
        """Some fields."""

        kind: ClassVar[str] = "plain"
        first: int
        second: str = "two"
        numbers: list[int] = dataclasses.field(default_factory=list)
        aside: int = dataclasses.field(default=0, compare=False, repr=False)

        def doubled(self) -> int:
            return 2 * self.first

    made: type = maker(**{"frozen": True, "slots": True, **how})(Plain)
    return made


def _outcome(work: Callable[..., Any], *given: Any, **named: Any) -> Any:
    try:
        return work(*given, **named)
    except (TypeError, AttributeError) as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("how", [{}, {"kw_only": True}, {"frozen": False}, {"eq": False}], ids=str)
def test_they_behave_as_the_standard_librarys_do(how: dict[str, Any]) -> None:
    ours, theirs = (_seen(_plain(maker, **how)) for maker in (dataclass, dataclasses.dataclass))
    assert ours == theirs


def _seen(kind: Any) -> list[Any]:
    """What can be seen of a class and its objects."""
    tried = [_outcome(kind, *given, **named) for given, named in GIVEN]
    made: list[Any] = [each for each in tried if isinstance(each, kind)]
    assert made
    return [
        kind.__doc__,
        kind.__match_args__,
        kind.__slots__,
        [each.name for each in dataclasses.fields(kind)],
        [each if isinstance(each, tuple) else repr(each) for each in tried],
        [each.doubled() for each in made],
        [[one == other for other in made] for one in made],
        [_outcome(hash, each) == _outcome(hash, copy.copy(each)) for each in made],
        [isinstance(_outcome(hash, each), int) for each in made],
        [_outcome(setattr, each, "first", 5) for each in made],
        [repr(dataclasses.replace(each, second="x")) for each in made],
        [dataclasses.asdict(copy.deepcopy(each)) for each in made],
        [_outcome(delattr, each, "second") for each in made],
    ]


@dataclass(frozen=True, slots=True)
class Base:
    """What another class adds to."""

    first: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Derived(Base):
    """Writes two methods itself."""

    second: Any = None

    def __repr__(self) -> str:
        return "derived"

    def __hash__(self) -> int:
        return 7


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Nothing:
    """Has no field."""


def test_classes_inherit_and_keep_what_they_write_themselves() -> None:
    made = Derived((1,), 2)
    assert (repr(made), hash(made)) == ("derived", 7)
    assert made == Derived((1,), 2)
    assert made != Derived((1,), 3)
    assert Base((1,)) != Derived((1,))
    assert hash(Base((1,))) == hash(((1,),))
    assert Nothing() == Nothing()
    assert repr(Nothing()) == "Nothing()"


def test_frozen_objects_are_pickled_and_copied() -> None:
    made = Derived((1,), Base(()))
    assert pickle.loads(pickle.dumps(made)) == made
    assert copy.deepcopy(made) == made


def test_one_that_holds_itself_is_shown() -> None:
    inside: list[Any] = []
    made = Base((1,))
    holds = dataclasses.replace(made, first=inside)  # type: ignore[arg-type]
    inside.append(holds)
    assert repr(holds) == "Base(first=[...])"


def test_two_of_one_tuple_are_told_from_the_tuple() -> None:
    assert Base((1,)).__eq__(((1,),)) is NotImplemented


def test_a_class_without_slots_is_refused() -> None:
    with pytest.raises(TypeError, match="slots"):
        dataclass(frozen=True, slots=False)(Base)
