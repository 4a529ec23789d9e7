"""What Muon borrows for the matrices of a rank, and whose these are.

Momenta are made a group at a time. A matrix is then normalised in fp32, orthogonalised in bf16 by
Newton's and Schulz's iteration, and scaled in fp32, twice; queries, keys and values each by
themselves, though they are one parameter. What the parameter before was changed by is there until
the next one is made. Sources: Emerging-Optimizers' orthogonalized_optimizer.py (step) and
muon_utils.py (newton_schulz), megatron/core/optimizer/muon.py (orthogonalize).
"""

from collections.abc import Iterable
from itertools import cycle
from operator import attrgetter

from trainfit.estimator.frameworks.megatron.requests.parameters import LocalParameter, Matrix
from trainfit.estimator.trace.recorder import HeldTensor, Recorder

ITERATIONS = 5
"""muon_num_ns_steps; likewise below."""
WIDE, NARROW = 4, 2
"""Bytes of an element outside and within the iteration (muon_fp32_matmul_prec: medium)."""


def orthogonalise(parameters: Iterable[LocalParameter], recorder: Recorder) -> None:
    """One parameter after the other, each with Nesterov's momentum."""
    before: HeldTensor | None = None
    for parameter in parameters:
        momentum = recorder.make(WIDE * parameter.numel)
        update = _update(parameter, recorder)
        recorder.release(momentum, *([before] if before is not None else ()))
        before = update
    if before is not None:
        recorder.release(before)


def _update(parameter: LocalParameter, recorder: Recorder) -> HeldTensor:
    if len(parameter.matrices) == 1:
        return _orthogonal(parameter.matrices[0], recorder)
    copies = [recorder.make(WIDE * each.numel) for each in parameter.matrices]
    parts = [_orthogonal(each, recorder) for each in parameter.matrices]
    recorder.release(*copies)
    update = recorder.make(WIDE * parameter.numel)
    recorder.release(*parts)
    return update


def _orthogonal(matrix: Matrix, recorder: Recorder) -> HeldTensor:
    normalised = recorder.make(WIDE * matrix.numel)
    iterate = recorder.make(NARROW * matrix.numel)
    recorder.release(normalised)
    for _ in range(ITERATIONS):
        squares = [recorder.make(NARROW * matrix.side**2) for _ in range(2)]
        following = recorder.make(NARROW * matrix.numel)
        recorder.release(*squares, iterate)
        iterate = following
    orthogonal = recorder.make(WIDE * matrix.numel)
    recorder.release(iterate)
    scaled, twice = (recorder.make(WIDE * matrix.numel) for _ in range(2))
    recorder.release(scaled, orthogonal)
    return twice


def dealt(parameters: Iterable[LocalParameter], ranks: int) -> list[list[LocalParameter]]:
    """What each rank is dealt of whole parameters, by their size: up to the last rank and back to
    the first. Source: layer_wise_optimizer.py (_shard_params_ping_pong).
    """
    hands = [list[LocalParameter]() for _ in range(ranks)]
    turns = cycle((*hands, *reversed(hands)))
    for hand, each in zip(turns, sorted(parameters, key=attrgetter("numel")), strict=False):
        hand.append(each)
    return hands
