"""Dataclasses that write a method when it is first called.

The standard library writes and compiles six methods of each frozen class while its module is
loaded, in half a millisecond; a command loads 140 such classes and calls few of their methods.
These behave as those do, and their fields are the standard library's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from dataclasses import dataclass as with_fields
from reprlib import recursive_repr
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, cast

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        *,
        slots: bool,
        frozen: bool = False,
        kw_only: bool = False,
        eq: bool = True,
        weakref_slot: bool = False,
    ) -> Callable[[type], type]:
        """What `dataclasses.dataclass` makes of a class with slots."""
        if not slots:
            raise TypeError("the methods of a class without slots are the standard library's")

        def made(kind: type) -> type:
            own = dict(vars(kind))
            if not kind.__doc__:  # the signature would be written into it
                kind.__doc__ = kind.__name__
            kept: dict[str, bool] = {
                "slots": True,
                "kw_only": kw_only,
                "weakref_slot": weakref_slot,
            }
            kind = with_fields(init=False, repr=False, eq=False, **kept)(kind)
            _write_when_called(kind, "__init__", _init)
            if "__repr__" not in own:
                kind.__repr__ = _repr
            if eq and "__eq__" not in own:
                _write_when_called(kind, "__eq__", _eq)
            if eq and own.get("__hash__") is None:
                if frozen:
                    _write_when_called(kind, "__hash__", _hash)
                else:
                    kind.__hash__ = None
            if frozen:
                kind.__setattr__, kind.__delattr__ = _refuse_to_set, _refuse_to_delete
                kind.__getstate__, kind.__setstate__ = _state, _take_state
            return kind

        return made


Method = Callable[..., Any]


def _write_when_called(kind: type, name: str, write: Callable[[type], Method]) -> None:
    def first(self: object, *arguments: object, **named: object) -> Any:
        method = write(kind)
        setattr(kind, name, method)
        return method(self, *arguments, **named)

    setattr(kind, name, first)


def _init(kind: type) -> Method:
    """Takes the fields in their order, those by name only behind, and sets each slot by its own
    descriptor, as the class itself may be frozen.
    """
    scope: dict[str, object] = {}
    ordered = sorted(_fields(kind), key=lambda each: each.kw_only is True)
    parameters, lines = [], []
    for each in ordered:
        name = value = each.name
        if each.kw_only and "*" not in parameters:
            parameters.append("*")
        scope[f"_set_{name}"] = getattr(kind, name).__set__
        if each.default is not MISSING:
            scope[f"default_{name}"] = each.default
            name = f"{name}=default_{name}"
        elif each.default_factory is not MISSING:
            scope[f"make_{name}"] = each.default_factory
            value = f"make_{name}() if {name} is MISSING else {name}"
            name = f"{name}=MISSING"
        parameters.append(name)
        lines.append(f"_set_{each.name}(self, {value})")
    scope["MISSING"] = MISSING
    return _compiled(kind, "__init__", ["self", *parameters], lines, scope)


def _eq(kind: type) -> Method:
    mine, other = (
        _tuple(f"{whose}.{each.name}" for each in _fields(kind) if each.compare)
        for whose in ("self", "other")
    )
    lines = [
        f"if other.__class__ is self.__class__: return {mine} == {other}",
        "return NotImplemented",
    ]
    return _compiled(kind, "__eq__", ["self", "other"], lines, {})


def _hash(kind: type) -> Method:
    compared = (f"self.{each.name}" for each in _fields(kind) if each.compare)
    return _compiled(kind, "__hash__", ["self"], [f"return hash({_tuple(compared)})"], {})


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_to_set(_: object, name: str, __: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:
    return [getattr(self, each.name) for each in fields(self)]


def _take_state(self: Any, state: Iterable[object]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


def _fields(kind: Any) -> tuple[Field[Any], ...]:
    return fields(kind)


def _tuple(parts: Iterable[str]) -> str:
    return f"({''.join(f'{each}, ' for each in parts)})"


def _compiled(
    kind: type, name: str, parameters: Iterable[str], lines: Sequence[str], scope: dict[str, object]
) -> Method:
    text = f"def {name}({', '.join(parameters)}):\n" + "\n".join(
        f" {each}" for each in lines or ["pass"]
    )
    exec(text, scope)
    method = cast(FunctionType, scope[name])
    method.__module__, method.__qualname__ = kind.__module__, f"{kind.__qualname__}.{name}"
    return method
