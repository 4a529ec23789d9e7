"""Seconds of what data-parallel ranks exchange of model states, and of the optimizer's step."""

from typing import NamedTuple

from trainfit.catalog.speed import Stack
from trainfit.estimator.frameworks.framework import StateTraffic
from trainfit.estimator.local_parameters import Local
from trainfit.resolve.plan import Pipeline
from trainfit.steptime.links import Links


class StateSeconds(NamedTuple):
    """Seconds of a rank's states: exchanges that each micro-batch comes with, those of a step, and
    the optimizer.
    """

    each: float
    once: float
    optimizer: float


def state_seconds(
    local: Local, traffic: StateTraffic, shards: tuple[int, int], links: Links
) -> StateSeconds:
    """Seconds for the states of one rank's parameters, dense and of experts, which so many ranks
    share out, before anything hides what is exchanged.
    """

    def exchange(size: float) -> float:
        dense = links.gather(size * local.dense, links.dense)
        return dense + links.gather(size * local.expert, links.expert)

    reduced = exchange(traffic.gradient if traffic.weight else 2 * traffic.gradient)
    gathered = exchange(traffic.weight)
    each = traffic.gathers * gathered + traffic.reduces_each * reduced
    once = (not traffic.gathers) * gathered + (not traffic.reduces_each) * reduced
    shard = local.dense / shards[0] + local.expert / shards[1]
    if traffic.fetches:
        fetched = traffic.weight * shard / links.gpu.host_bytes_per_second
        each, once = each + traffic.gathers * fetched, once + (not traffic.gathers) * fetched
    moved = shard * traffic.optimizer
    memory = links.gpu.memory_bytes_per_second * links.gpu.reach.memory
    optimizer = (1 - traffic.on_host) * moved / memory
    optimizer += traffic.on_host * moved / links.gpu.host_bytes_per_second
    zeroed = traffic.gradient * (local.dense + local.expert) / memory
    return StateSeconds(each, once, optimizer + zeroed)


def exposed_each(seconds: float, beside: float, stack: Stack) -> float:
    """What of a micro-batch's exchange shows beside the seconds of its passes."""
    return max(stack.gathered_floor * seconds, seconds - stack.gathered_hidden * beside)


def exposed_once(
    seconds: float, beside: float, stack: Stack, pipeline: Pipeline, *, overlapped: bool
) -> float:
    """Seconds of a step's exchange that its last backward and its first forward do not hide.

    Where chunks are interleaved, gradients of a chunk are reduced while the last micro-batches, as
    many as there are ranks, run backward through the chunks before it, and weights are gathered
    likewise; the last chunk to be reduced, or the first to be gathered, is beside nothing. Source:
    megatron/core/pipeline_parallel/schedules.py (forward_backward_pipelining_with_interleaving,
    grad_sync_func and param_sync_func).
    """
    if not overlapped:
        return seconds
    exposed, window = stack.data_floor, beside
    if pipeline.schedule == "interleaved":
        alone = 1 / pipeline.vpp
        exposed = max(exposed, alone)
        window *= pipeline.microbatch_group_size * (1 - alone)
    return max(exposed * seconds, seconds - stack.data_hidden * window)
