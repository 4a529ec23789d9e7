"""Tensors without data: a shape, a width of their elements, and a storage that is their own.

A program that is run with plain numbers makes tensors of so many bytes; run with `Size`s it makes
the same tensors with shapes that people read.
"""

from collections.abc import Hashable, Mapping
from enum import Enum
from fractions import Fraction
from math import ceil, prod
from typing import Final


class Size(int):
    """A number that knows its formula: `Size(8, "a") * Size(128, "d")` is 1024 and "a d".

    `symbols` are those that the formula names, with their numbers.
    """

    symbols: Mapping[str, int]
    _over: str
    _under: str

    def __new__(
        cls, value: int, over: str, under: str = "", symbols: Mapping[str, int] | None = None
    ) -> "Size":
        size = super().__new__(cls, value)
        size._over, size._under = over, under
        size.symbols = {over: int(value)} if symbols is None else symbols
        return size

    def __str__(self) -> str:
        return f"{_factor(self._over)} / {self._under}" if self._under else self._over

    def __add__(self, other: int) -> int:
        if not other:
            return self
        return Size(int(self) + int(other), f"{self} + {other}", "", self._with(other))

    def __radd__(self, other: int) -> int:
        if not other:
            return self
        return Size(int(other) + int(self), f"{other} + {self}", "", self.symbols)

    def __mul__(self, other: int) -> int:
        if not isinstance(other, Size):
            return other * self
        under = " ".join(filter(None, (self._under, other._under)))
        over = f"{_factor(self._over)} {_factor(other._over)}"
        return Size(int(self) * int(other), over, under, self._with(other))

    def __rmul__(self, other: int) -> int:
        if other == 1:
            return self
        return Size(other * int(self), f"{other} {_factor(self._over)}", self._under, self.symbols)

    def __floordiv__(self, other: int) -> int:
        under = f"{self._under} {other}" if self._under else str(other)
        return Size(int(self) // int(other), self._over, under, self._with(other))

    def _with(self, other: int) -> Mapping[str, int]:
        return {**self.symbols, **other.symbols} if isinstance(other, Size) else self.symbols


def _factor(formula: str) -> str:
    """A formula as it stands within a product: a sum in brackets."""
    depth = 0
    for sign in formula:
        depth += (sign == "(") - (sign == ")")
        if sign == "+" and not depth:
            return f"({formula})"
    return formula


class Role(Enum):
    """What a saved tensor is to whoever keeps, drops or reads it."""

    BLOCK_INPUT = "what a block reads of the residual stream, as it is"
    NORM_OUTPUT = "what the products behind a norm read"
    NORMALISED = "what a written-out norm multiplies with its weight"
    FOR_INPUT_GRADIENT = "what an operation needs for the gradient of its input alone"
    FOR_WEIGHT_GRADIENT = "what a product needs for the gradient of its weight alone"
    CACHED_BY_AUTOCAST = "a narrow copy of a weight that is trained, kept until forward returns"
    KERNEL_OUTPUT = "what attention's kernel makes"


class Tensor:
    """A storage of its own, unless it is a part `of` one: two tensors are the same storage if they
    are the same object.

    `dropped_by` names the modules that let go of it before backward and make it again, or fetch
    it: recomputed ones, and offloaded ones. `role` is what it is to whoever saves it. What is the
    `gradient_of` another is made by its backward.
    """

    __slots__ = (
        *("bytes", "dropped_by", "gradient_of", "name", "of", "role", "shape", "storages"),
        *("stream", "width"),
    )

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        width: int | Fraction,
        dropped_by: tuple[str, ...],
        role: Role | None = None,
        of: "Tensor | None" = None,
        storages: int = 1,
        stream: Hashable = 0,
        gradient_of: "Tensor | None" = None,
    ) -> None:
        self.name: Final = name
        self.shape: Final = shape
        self.width: Final = width
        """Bytes of an element. Those of a quantised tensor have their scales shared out."""
        elements = +prod(shape)
        self.bytes: Final = elements * width if type(width) is int else ceil(elements * width)
        self.dropped_by: Final = dropped_by
        self.role: Final = role
        self.of: Final = of
        self.storages: Final = storages
        """Of how many blocks of memory it is made, which are of one size."""
        self.stream: Final = stream
        """On which it is made."""
        self.gradient_of: Final = gradient_of

    @property
    def formula(self) -> str:
        """The name with the shape, in symbols where the program ran with them."""
        return f"{self.name} [{', '.join(map(str, self.shape))}]"
