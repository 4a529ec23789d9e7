"""When tensors come and go, from the moments of a program."""

from __future__ import annotations

from trainfit.estimator.allocator import Allocate, Free
from trainfit.estimator.tensors import Tensor
from trainfit.estimator.trace.moments import turns
from trainfit.estimator.trace.recorder import HeldTensor, Passage, Recorder


def tensor(name: str, nbytes: int = 1) -> Tensor:
    return Tensor(name, (nbytes,), 1, ())


def told(*made: tuple[Tensor, bool]) -> list[str]:
    return [("+" if comes else "-") + each.name for each, comes in made]


def test_a_tensor_is_there_from_the_first_moment_that_names_it_until_the_last() -> None:
    x, y, z = map(tensor, "xyz")
    assert told(*turns([(x, y), (y,), (x, z)])) == ["+x", "+y", "-y", "+z", "-x", "-z"]


def test_what_goes_makes_room_for_what_comes() -> None:
    x, y = tensor("x", 3), tensor("y", 4)
    recorder, here = Recorder(), dict[Tensor, HeldTensor]()
    recorder.run(Passage(turns([(x,), (y,)])), here)
    assert recorder.peak_bytes == 4
    recorder.run(Passage(turns([(x, y)])), here)
    assert (recorder.peak_bytes, recorder.bytes, here) == (7, 0, {})


def test_what_is_given_goes_when_nobody_reads_it_and_what_is_kept_stays() -> None:
    x, y, z = map(tensor, "xyz")
    assert told(*turns([(y,), (z,)], given=[x, y], kept=[z])) == ["-x", "-y", "+z"]


def test_several_storages_are_requested_one_by_one() -> None:
    both = Tensor("both", (2, 512), 2, (), storages=2)
    recorder, here = Recorder(), dict[Tensor, HeldTensor]()
    recorder.run(Passage(turns([(both,)], kept=[both])), here)
    assert list(recorder.cut()) == [Allocate(0, 1024), Allocate(1, 1024)]


def test_a_passage_asks_for_the_same_every_time_but_for_what_outlasts_it() -> None:
    x, y, z = map(tensor, "xyz")
    passage = Passage(turns([(x, y), (z,)], given=[x], kept=[z]))
    recorder, here = Recorder(), {x: HeldTensor(["given"], 1)}
    recorder.run(passage, here)
    first = recorder.cut()
    assert first == [Allocate(y, 1), Free("given"), Free(y), Allocate(0, 1)]
    assert here == {z: HeldTensor((0,), 1)}
    recorder.run(passage, {x: HeldTensor(["given"], 1)})
    assert recorder.cut() == [*first[:-1], Allocate(1, 1)]
    assert recorder.peak_bytes == recorder.bytes + 1 == 1
