"""Which ranks of a plan ask for the same, and what they ask for.

Ranks that hold equal chunks differ by how many micro-batches they have in flight; data-parallel
ranks differ by the parameters that the shares of their optimizer cut.
"""

from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from itertools import chain
from math import ceil
from operator import itemgetter

from trainfit.estimator import cublas
from trainfit.estimator.blocks.moe.transformer_engine import with_least_ep
from trainfit.estimator.frameworks.framework import Alike
from trainfit.estimator.frameworks.megatron.buffers import (
    deferred,
    head_copies,
    te_workspaces,
)
from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.megatron.requests.exchanging import (
    ExchangingRank,
    ExchangingRankWithGraphs,
    ExchangingStretches,
)
from trainfit.estimator.frameworks.megatron.requests.graphs import CAPTURE, RankWithGraphs
from trainfit.estimator.frameworks.megatron.requests.known import is_local
from trainfit.estimator.frameworks.megatron.requests.model import (
    ChunkBuffers,
    ModelChunks,
    Stepped,
)
from trainfit.estimator.frameworks.megatron.requests.parameters import (
    LocalParameter,
    PipelineParameters,
)
from trainfit.estimator.frameworks.megatron.requests.passes import ModelStretches
from trainfit.estimator.frameworks.megatron.requests.rank import (
    RankRequests,
    Standing,
    StepRequests,
)
from trainfit.estimator.frameworks.megatron.requests.routing import LATER_STEPS, is_uneven
from trainfit.estimator.frameworks.megatron.requests.routing import layers as uneven_layers
from trainfit.estimator.frameworks.megatron.requests.shards import (
    Buffer,
    buffer,
    buffer_of_wholes,
)
from trainfit.estimator.frameworks.megatron.states import (
    BUCKET_PARAMETERS,
    BUCKET_PARAMETERS_PER_RANK,
    deals_whole,
    state_sharding,
)
from trainfit.estimator.local_parameters import parameters_of
from trainfit.estimator.memo import Memo
from trainfit.estimator.placement import Content, place
from trainfit.estimator.run import run_of
from trainfit.estimator.trace.recorder import Recorder, Trace, TracePart
from trainfit.resolve.megatron.plan import MegatronPlan

MODEL, OPTIMIZER = 1 << 40, 1 << 41
"""First names of what a rank holds, beside those of its forwards and backwards."""


class Traces:
    """What every rank of a plan asks for."""

    def __init__(self, plan: MegatronPlan, memo: Memo) -> None:
        self._plan, self._memo = plan, memo
        self._ledger = memo(MegatronLedger, with_least_ep(run_of(plan)))
        self._beside = plan.framework.overlap_moe_expert_parallel_comm
        self._stretches = memo(
            ExchangingStretches if self._beside else ModelStretches, self._ledger
        )
        apart, tied = plan.layout.pipeline.pp > 1, plan.model.output_layer.tied
        words = apart and (tied or plan.mtp_layers > 0)
        table, frozen = parameters_of(plan, memo), plan.step.adapters is not None
        self._contents = [tuple([placement.content for placement in rank]) for rank in place(plan)]
        shapes = self._ledger.gemm_shapes(tuple(chain.from_iterable(self._contents)))
        self._parameters = PipelineParameters(
            table, shapes, words=words, head=apart and tied, frozen=frozen
        )

    def alike(self) -> Iterator[Alike]:
        """Ranks that hold equal chunks. The first of them has most in flight."""
        layout = self._plan.layout
        shares: Sequence[int] = range(
            1 if layout.sharding == "no_shard" else layout.optimizer_shards
        )
        groups: dict[tuple[Content, ...], list[int]] = {}
        for number, contents in enumerate(self._contents):
            groups.setdefault(contents, []).append(number)
        for ranks in groups.values():
            found = RankTraces(self, ranks[0])
            uneven = found.uneven if is_uneven(self._plan) else None
            if self._plan.step.muon is not None:
                shares = found.by_states(shares)
            yield Alike(tuple(ranks), shares, found.of, uneven)

    def model(self, number: int) -> ModelChunks:
        """What a pipeline rank holds."""
        contents = enumerate(self._contents[number])
        return ModelChunks(
            self._plan, [self._chunk(number, index, each) for index, each in contents]
        )

    def steps(self, number: int, draw: int | None = None) -> StepRequests:
        """What its forwards and backwards ask for; of a `draw`, as many rows as happen to be
        routed to its experts.
        """
        contents, stretches = self._contents[number], self._stretches
        layer = None if draw is None else uneven_layers(stretches, self._memo, draw)
        standing = self._standing(contents)
        graphed = self._plan.framework.cuda_graph_impl != "none"
        kinds = (
            (ExchangingRank, ExchangingRankWithGraphs)
            if self._beside
            else (RankRequests, RankWithGraphs)
        )
        kind = kinds[graphed]
        rank = kind(self._plan, self._ledger, stretches, number, contents, standing, layer)
        return rank.steps() if draw is None else rank.steps(LATER_STEPS)

    def _layer_copies(self, kind: int | None) -> tuple[int, ...]:
        """Bytes of each copy that the linears of a kind of layer, or of a multi-token prediction,
        make of their weights in fp8 or fp4, and keep beside these.
        """
        narrow, own = self._plan.step.states.narrow, self._parameters
        if narrow is None or narrow.alone:
            return ()
        parameters = own.depth() if kind is None else own.layer(kind)
        sizes = [ceil(narrow.bytes * each.numel) for each in parameters if each.narrow]
        return tuple(chain.from_iterable([[size] * narrow.copies for size in sizes]))

    def _chunk(self, number: int, index: int, content: Content) -> ChunkBuffers:
        """Only the first chunk has buckets, where they are reduced during backward."""
        plan, layout = self._plan, self._plan.layout
        parameters = [*self._parameters.of(content), *self._adapters(content)]
        size = max(BUCKET_PARAMETERS, BUCKET_PARAMETERS_PER_RANK * layout.dp * layout.cp)
        buckets = number == index == 0 and plan.framework.overlap_grad_reduce
        padded = plan.framework.pad_buckets_for_high_nccl_busbw
        shards = layout.optimizer_shards, layout.expert_optimizer_shards
        if deals_whole(plan):  # DistributedDataParallel cuts no buffer then.
            shards = 1, 1
        narrow, limit = plan.step.states.narrow, size if buckets else None
        apart, whole = narrow is not None and narrow.alone, state_sharding(plan).lays_whole
        kinds: dict[tuple[bool, bool, bool], list[LocalParameter]] = {}
        for each in parameters:
            if not each.frozen:
                kind = each.expert, each.narrow and apart, whole and bool(each.matrices)
                kinds.setdefault(kind, []).append(each)
        buffers: list[Buffer] = []
        for (expert, is_narrow, is_whole), own in sorted(kinds.items(), key=itemgetter(0)):
            make = buffer_of_wholes if is_whole else buffer
            ranks = shards[expert]
            buffers.append(make(own, ranks, limit, for_bandwidth=padded, narrow=is_narrow))
        return ChunkBuffers(parameters, buffers)

    def _adapters(self, content: Content) -> Iterator[LocalParameter]:
        """The adapters of the layers of a chunk."""
        if self._plan.step.adapters is not None:
            of_kinds = self._ledger.adapters()
            for kind in content.kinds:
                yield from map(LocalParameter, of_kinds[kind])

    def _standing(self, contents: Sequence[Content]) -> Standing:
        ledger, plan = self._ledger, self._plan
        capability, sizes = plan.gpu.compute_capability, ledger.sizes
        libraries = cublas.workspaces(capability, deterministic=plan.framework.deterministic_mode)
        experts, local = any(map(ledger.has_experts, contents)), is_local(plan)
        gathered, head = sizes.bytes * sizes.h * sizes.n_gathered, head_copies(sizes, ledger.run)
        buffers = ledger.shared_buffers
        in_layers = max(buffers.scores, buffers.gathered_tokens if experts else 0)
        if local or (in_layers and any(content.output_layer for content in contents)):
            in_layers, gathered = max(in_layers, gathered), 0
        workspaces = te_workspaces(ledger.run, capability, experts)
        return Standing(
            (buffers.rotary, *workspaces, in_layers),
            (gathered, head),
            libraries // cublas.HANDLES,
            cache(self._layer_copies),
            deferred(sizes, ledger.run, plan.batch.num_microbatches),
            local,
        )


class RankTraces:
    """The traces of a pipeline rank, which differ by what the optimizer asks for."""

    def __init__(self, traces: Traces, number: int) -> None:
        self._traces, self._number = traces, number
        self._known: dict[int, Stepped] = {}

    def of(self, share: int) -> Trace:
        """The trace of the data-parallel rank with this share of the optimizer's states."""
        return self._with(self._steps, share)

    def by_states(self, shares: Sequence[int]) -> list[int]:
        """The shares in the order of what they are dealt, most first."""
        return sorted(shares, key=self._model.states_of, reverse=True)

    def uneven(self, share: int, draw: int) -> Trace:
        """The trace with as many rows as happen to be routed to its experts."""
        return self._with(self._traces.steps(self._number, draw), share)

    def _with(self, steps: StepRequests, share: int) -> Trace:
        loaded = self._loaded
        own = self._stepped(share)
        resident = loaded.bytes + own.kept_bytes
        highest, moment = steps.peak_bytes, steps.peak_moment
        if own.borrowed_bytes + steps.before > highest:
            highest, moment = own.borrowed_bytes + steps.before, "later optimizer_step"
        highest += resident
        if (first := loaded.bytes + own.main_bytes + steps.first_peak_bytes) > highest:
            highest, moment = first, CAPTURE
        graphs = steps.graphs
        if graphs is not None:
            graphs = graphs._replace(step=TracePart.joined(graphs.step, own.later))
        return Trace(
            TracePart.joined(loaded.requests, own.main),
            TracePart.joined(steps.first, own.first),
            TracePart.joined(steps.later, own.later),
            highest,
            moment,
            steps.tensors,
            graphs,
        )

    def _stepped(self, share: int) -> Stepped:
        """What the optimizer with this share asks for, however rows are routed."""
        known = self._known.get(share)
        if known is None:
            recorder = Recorder(first_name=OPTIMIZER)
            known = self._known[share] = self._model.stepped(share, recorder)
        return known

    @cached_property
    def _steps(self) -> StepRequests:
        return self._traces.steps(self._number)

    @cached_property
    def _model(self) -> ModelChunks:
        return self._traces.model(self._number)

    @cached_property
    def _loaded(self) -> Recorder:
        return self._model.load(Recorder(first_name=MODEL))
