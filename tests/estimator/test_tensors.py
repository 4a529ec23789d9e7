"""Sizes compute what plain numbers do, and say how."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from trainfit.estimator.tensors import Size, Tensor

ONE_AND_A_32ND = Fraction(33, 32)
"""Bytes of an element of mxfp8 with its scales."""
counts = st.integers(1, 1000)


@given(counts, counts, counts, counts)
def test_a_size_is_the_number_of_its_formula(a: int, g: int, d: int, t: int) -> None:
    heads, groups, width, ranks = Size(a, "a"), Size(g, "g"), Size(d, "d"), Size(t, "t")
    size = (heads + 2 * groups) * width // ranks
    assert size == (a + 2 * g) * d // t
    assert str(size) == "(a + 2 g) d / t"
    assert isinstance(size, Size)
    assert size.symbols == {"a": a, "g": g, "d": d, "t": t}


def test_formulas_leave_out_what_changes_nothing() -> None:
    f, t = Size(8, "f"), Size(2, "t")
    assert [str(each) for each in (1 * f, f * 1, f + 0, 0 + f)] == ["f"] * 4
    assert str(f // t * Size(3, "n")) == "f n / t"
    assert str((f + 1) // t) == "(f + 1) / t"
    assert str(1 + 2 * f) == "1 + 2 f"
    assert str(f * (t + 1) // t) == "f (t + 1) / t"
    assert str((f + 1) * (t + 1)) == "(f + 1) (t + 1)"
    assert 0 * f == 0


def test_bytes_are_the_shape_times_the_width() -> None:
    assert Tensor("x", (3, 5), 2, ()).bytes == 30
    narrow = Tensor("x", (Size(3, "n"), Size(5, "h")), ONE_AND_A_32ND, ())
    assert narrow.bytes == ceil(15 * ONE_AND_A_32ND) == 16
    assert type(narrow.bytes) is int
    assert narrow.formula == "x [n, h]"
