"""Every way through what a launch leaves open is read once."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from trainfit.launch.fork import Fork, every_way


@given(st.lists(st.integers(1, 3), max_size=4))
def test_every_way_is_gone_once(sizes: list[int]) -> None:
    def read(fork: Fork) -> tuple[int, ...]:
        return tuple(fork.choose(range(size)) for size in sizes)

    found = list(every_way(read))
    assert sorted(found) == sorted(product(*map(range, sizes)))
    assert found[0] == (0,) * len(sizes)


def test_what_is_asked_may_depend_on_what_was_chosen() -> None:
    def read(fork: Fork) -> str:
        if fork.choose((True, False)):
            return "new"
        return f"old, {fork.choose(('b', 'a'))}"

    assert list(every_way(read)) == ["new", "old, b", "old, a"]
