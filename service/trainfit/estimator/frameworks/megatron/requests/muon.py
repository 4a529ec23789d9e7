"""What Muon borrows for the matrices of a rank, and whose these are.

Momenta are made a group at a time. A matrix is then normalised in fp32, orthogonalised in bf16 by
Newton's and Schulz's iteration, and scaled in fp32, twice; queries, keys and values each by
themselves, though they are one parameter. What the parameter before was changed by is there until
the next one is made. Sources: Emerging-Optimizers' orthogonalized_optimizer.py (step) and
muon_utils.py (newton_schulz, newton_schulz_tp), megatron/core/optimizer/emerging_optimizers.py
(TensorParallelMuon).
"""

from collections.abc import Iterable
from itertools import cycle, repeat
from operator import attrgetter

from trainfit.estimator.frameworks.megatron.requests.parameters import LocalParameter, Matrix
from trainfit.estimator.trace.recorder import HeldTensor, Recorder
from trainfit.resolve.megatron.plan import MuonStep

ITERATIONS = 5
"""muon_num_ns_steps; likewise below."""
WIDE, NARROW = 4, 2
"""Bytes of an element outside and within the iteration (muon_fp32_matmul_prec: medium)."""


def orthogonalise(parameters: Iterable[LocalParameter], step: MuonStep, recorder: Recorder) -> None:
    """One parameter after the other, each with a momentum of its own where that looks ahead."""
    before: HeldTensor | None = None
    for parameter in parameters:
        ahead = [recorder.make(WIDE * parameter.numel) for _ in range(step.nesterov)]
        update = _update(parameter, step, recorder)
        recorder.release(*ahead, *([before] if before is not None else ()))
        before = update
    if before is not None:
        recorder.release(before)


def _update(parameter: LocalParameter, step: MuonStep, recorder: Recorder) -> HeldTensor:
    ranks = step.etp if parameter.expert else step.tp
    if len(parameter.matrices) == 1:
        return _orthogonal(parameter.matrices[0], ranks, step, recorder)
    copies = [recorder.make(WIDE * each.numel) for each in parameter.matrices]
    parts = [_orthogonal(each, ranks, step, recorder) for each in parameter.matrices]
    recorder.release(*copies)
    update = recorder.make(WIDE * parameter.numel)
    recorder.release(*parts)
    return update


def _orthogonal(matrix: Matrix, ranks: int, step: MuonStep, recorder: Recorder) -> HeldTensor:
    """What ranks share is gathered, each part by itself and then all of it, though there be one
    rank; or each multiplies its part along the side that is not shared.
    """
    numel, side, gathered = matrix.numel, matrix.side, list[HeldTensor]()
    if matrix.across and step.tp_mode == "duplicated":
        numel *= ranks
        side = min(matrix.across, numel // matrix.across)
        sizes = (*repeat(matrix.numel, ranks), numel)
        gathered = [recorder.make(WIDE * each) for each in sizes]
    elif matrix.across and step.tp_mode == "distributed":
        side = matrix.across
    normalised = recorder.make(WIDE * numel)
    iterate = recorder.make(NARROW * numel)
    recorder.release(normalised)
    for _ in range(ITERATIONS):
        squares = [recorder.make(NARROW * side**2) for _ in range(2)]
        following = recorder.make(NARROW * numel)
        recorder.release(*squares, iterate)
        iterate = following
    orthogonal = recorder.make(WIDE * numel)
    recorder.release(iterate, *gathered)
    scaled, twice = (recorder.make(WIDE * matrix.numel) for _ in range(2))
    recorder.release(scaled, orthogonal)
    return twice


def borrowed_bytes(parameters: Iterable[LocalParameter], step: MuonStep) -> int:
    """The most that a step borrows for one of them, behind another that is alike."""
    recorder = Recorder()
    for each in set(parameters):
        if each.matrices:
            orthogonalise((each, each), step, recorder)
    return recorder.peak_bytes


def dealt(parameters: Iterable[LocalParameter], ranks: int) -> list[list[LocalParameter]]:
    """What each rank is dealt of whole parameters, by their size: up to the last rank and back to
    the first. Source: layer_wise_optimizer.py (_shard_params_ping_pong).
    """
    hands = [list[LocalParameter]() for _ in range(ranks)]
    turns = cycle((*hands, *reversed(hands)))
    for hand, each in zip(turns, sorted(parameters, key=attrgetter("numel")), strict=False):
        hand.append(each)
    return hands
