"""What Muon asks of a stage for its matrices, besides their states."""

from collections.abc import Sequence
from typing import NamedTuple

from trainfit.estimator.frameworks.megatron.requests.muon import borrowed_bytes
from trainfit.estimator.frameworks.megatron.requests.parameters import PipelineParameters
from trainfit.estimator.frameworks.megatron.requests.shards import padding_of_wholes
from trainfit.estimator.frameworks.megatron.states import (
    StateSharding,
    bucket_padding,
    gathered_bytes,
)
from trainfit.estimator.local_parameters import Local
from trainfit.estimator.placement import Content
from trainfit.resolve.megatron.plan import MuonStep


class MuonBytes(NamedTuple):
    """What a step borrows, and by how much buffers are larger than what lies in them."""

    borrowed: int
    padding: int


def muon_bytes(
    contents: Sequence[Content],
    parameters: PipelineParameters,
    local: Local,
    embedding: int,
    sharding: StateSharding,
    step: MuonStep,
) -> MuonBytes:
    """Of a stage of such chunks. Buffers that cut no matrix have one bucket each, but those of the
    first chunk where they are reduced during backward.
    """
    chunks = [parameters.of(content) for content in contents]
    every = [each for chunk in chunks for each in chunk]
    borrowed = max(borrowed_bytes(every, step), gathered_bytes(local, embedding, sharding))
    if not sharding.lays_whole:
        return MuonBytes(borrowed, bucket_padding(local, sharding))
    rest = local._replace(dense=local.dense - local.linear - local.router, expert=0)
    padding = bucket_padding(rest, sharding)
    for content, chunk in zip(contents, chunks, strict=True):
        in_buckets = content.embedding and sharding.framework.overlap_grad_reduce
        padding += padding_of_wholes(chunk, sharding, in_buckets=in_buckets)
    return MuonBytes(borrowed, padding)
