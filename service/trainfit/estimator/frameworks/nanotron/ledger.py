"""The ledger of a pipeline rank under nanotron: its segments in forward order."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from types import ModuleType

from trainfit.estimator.blocks.attention import nanotron as attention
from trainfit.estimator.blocks.embedding import nanotron as embedding
from trainfit.estimator.blocks.head import nanotron as head
from trainfit.estimator.blocks.mlp import nanotron as mlp
from trainfit.estimator.blocks.norm import nanotron as norms
from trainfit.estimator.ledger import BlockOperation, Group
from trainfit.estimator.legend import Legend, in_symbols
from trainfit.estimator.operations.nanotron import NanotronProgram
from trainfit.estimator.peak import PlacedSegment
from trainfit.estimator.placement import Content
from trainfit.estimator.segment import Segment, SegmentName, add_up, rerun, walk
from trainfit.resolve.nanotron.plan import NanotronPlan
from trainfit.specs.blocks import Attention, Mlp, Sublayer

BF16 = 2
"""Bytes of an element of an activation."""


def legend_of(plan: NanotronPlan) -> Legend:
    layout, batch = plan.layout, plan.batch
    n = batch.seq_length * batch.micro_batch_size
    scatters = layout.sequence_parallel and layout.tp > 1
    return Legend(
        h=plan.model.hidden_size,
        b=batch.micro_batch_size,
        s=batch.seq_length,
        V=plan.vocabulary_rows,
        t=layout.tp,
        c=layout.cp,
        e=layout.ep,
        x=layout.etp,
        n=n,
        n_shard=n // layout.tp if scatters else n,
        n_gathered=n if scatters else 0,
        bytes=BF16,
        linear_input_bytes=Fraction(BF16),
        streams=1,
    )


class NanotronLedger:
    """What every stretch of the plan's model leaves behind, in numbers or also in symbols."""

    tables: Mapping[str, ModuleType] = {
        "attention": attention,
        "embedding": embedding,
        "head": head,
        "mlp": mlp,
        "norm": norms,
    }
    dropped: frozenset[str] = frozenset()
    recomputes_mtp = False

    def __init__(self, plan: NanotronPlan, *, symbolic: bool = False) -> None:
        self.plan = plan
        self.sizes = in_symbols(legend_of(plan)) if symbolic else legend_of(plan)
        act = self.sizes.act
        kinds = [
            tuple([group for each in kind.sublayers for group in self.sublayer(each)])
            for kind in plan.model.layer_kinds
        ]
        self._layers = [self._segment("dense", groups, act) for groups in kinds]
        if plan.step.recomputes_layers:
            self._layers = [rerun("dense", [layer], act, act) for layer in self._layers]
        self._input = self._segment("embedding", self.embedding(), act)
        self._final_norm = self._segment("final_norm", self.final_norm(), act)
        self._head = self._segment("head", self.head(), 0)

    def is_recomputed(self, position: int, kind: int) -> bool:  # noqa: ARG002
        """recompute_layer makes every layer again, from its input."""
        return self.plan.step.recomputes_layers

    def graphed(self, sublayer: Sublayer, groups: tuple[Group, ...]) -> Sequence[BlockOperation]:  # noqa: ARG002
        """No graph of layers is captured."""
        return ()

    def rerun(self, groups: tuple[Group, ...]) -> list[BlockOperation]:
        """All of a layer."""
        return [operation for group in groups for operation in group]

    def sublayer(self, sublayer: Sublayer) -> tuple[Group, ...]:
        """A norm, and the block that reads it."""
        step = NanotronProgram(self.sizes, self.plan)
        x = norms.norm(step)
        step.end_group()
        (block,) = sublayer.blocks
        match block:
            case Attention():
                attention.attention(step, x, block)
            case Mlp():
                mlp.mlp(step, x, block)
        step.end_group()
        return step.groups()

    def embedding(self) -> tuple[Group, ...]:
        return self._run(lambda step: embedding.lookup(step, self.plan.model.embedding))

    def final_norm(self) -> tuple[Group, ...]:
        return self._end()[:1]

    def head(self) -> tuple[Group, ...]:
        return self._end()[1:]

    def mtp(self) -> tuple[Group, ...]:
        """nanotron trains none."""
        return ()

    def segments(self, content: Content) -> Iterator[PlacedSegment]:
        """The rank in forward order."""
        if content.embedding:
            yield PlacedSegment(self._input, None)
        for position, kind in enumerate(content.kinds):
            yield PlacedSegment(self._layers[kind], position, kind)
        if content.output_layer:
            yield PlacedSegment(self._final_norm, None)
            yield PlacedSegment(self._head, None)

    def sent_bytes(self, content: Content) -> int:  # noqa: ARG002
        """No output is kept after it was sent: parallel/pipeline_parallel/state.py."""
        return 0

    def received_bytes(self, content: Content) -> int:  # noqa: ARG002
        """Nor is what was received: the layers' gradient is made of it."""
        return 0

    def batch_bytes(self, content: Content) -> int:  # noqa: ARG002
        """Token ids stand with the embedding."""
        return 0

    def _end(self) -> tuple[Group, ...]:
        """The final norm, whose output the head keeps, and the head."""
        step = NanotronProgram(self.sizes, self.plan)
        x = norms.norm(step, "final_layer_norm")
        step.end_group()
        head.head(step, x)
        step.end_group()
        return step.groups()

    def _run(self, program: Callable[[NanotronProgram], None]) -> tuple[Group, ...]:
        step = NanotronProgram(self.sizes, self.plan)
        program(step)
        return (step.group(),)

    def _segment(self, name: SegmentName, groups: tuple[Group, ...], gradient: int) -> Segment:
        return walk(name, add_up(groups, self.dropped), gradient)
