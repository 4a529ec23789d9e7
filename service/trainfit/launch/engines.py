"""What an engine of inference holds on the cards of training while a step runs beside it."""

from __future__ import annotations

from trainfit.launch.effects import Effect

ASLEEP_BYTES = 8 * 2**30
"""Of an engine that has let go of weights and cache: its context, communicators, CUDA graphs and
workspaces. Measured of vLLM 0.8 GiB on a card of its own, 2.4 to 7.4 GiB with tensor parallelism
(NVIDIA-NeMo/RL issue 223, of 1B), 4.1 GiB (issue 2619, of 35B), 6.8 to 7.0 GiB with graphs of 1.4
(vllm-project/vllm issue 47654, of a trillion over 8). SGLang's release_memory_occupation keeps the
same.
"""
SOURCE = "NVIDIA-NeMo/RL issues 223 and 2619, vllm-project/vllm issue 47654: 0.8 to 7.4 GiB"


def asleep(why: str) -> Effect:
    """What an engine that sleeps does to a step."""
    return Effect(why, "raises", SOURCE, bytes=ASLEEP_BYTES, outside=True)


def awake(why: str, share: float) -> Effect:
    """What a vLLM does that is awake: weights, cache and the highest forward take no more than its
    share of the card, which is filled with cache; graphs, context and communicators come besides.
    """
    source = "vllm/v1/worker/gpu_worker.py: determine_available_memory; " + SOURCE
    return Effect(why, "raises", source, bytes=ASLEEP_BYTES, share=share, outside=True)


def share_of(value: object) -> float | None:
    """A share of the card that a key gives; None where it gives none."""
    try:
        share = float(str(value))
    except ValueError:
        return None
    return share if 0 < share <= 1 else None
