"""In which types a step of PyTorch stores, computes, reduces and keeps its states."""

from fractions import Fraction
from typing import NamedTuple

from trainfit.resolve.findings import Findings, put
from trainfit.resolve.narrow import COPIES, narrow_recipe
from trainfit.resolve.plan import Layout
from trainfit.resolve.pytorch.plan import Adapters, Engine, NarrowProducts, PytorchStates
from trainfit.specs.framework import Torchtitan
from trainfit.specs.job import Job
from trainfit.specs.optimizers import OPTIMIZERS
from trainfit.specs.peft import BaseDtype, Lora, Peft
from trainfit.specs.precision import Narrow, Precision, PrecisionPreset
from trainfit.specs.training import Optimizer

BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp32-norms": 4}
"""Of an element; of a residual stream where norms are wider than what they read."""


class Dtypes(NamedTuple):
    """Bytes of an element: of stored weights, of gathered ones and activations, and of gradients
    while they are reduced. `autocast` narrows the inputs of matrix products only. Where a forward
    narrows what it reads, `base` is how weights that are not trained are stored.
    """

    stored: int
    computed: int
    reduced: int
    autocast: bool
    master: int = 0
    base: BaseDtype | None = None


def dtypes_of(job: Job, engine: Engine, layout: Layout) -> Dtypes:
    """What a preset means to the framework.

    torchtitan gathers fp32 weights in bf16 and reduces in fp32 (config: mixed_precision_param and
    mixed_precision_reduce). accelerate does the same under FSDP but reduces in bf16, and casts
    automatically where nothing is gathered. DeepSpeed keeps bf16 weights beside fp32 masters.
    """
    given = job.training.precision
    if isinstance(given, Precision):
        return _given_dtypes(given, engine, layout)
    sharded = layout.sharding != "no_shard"
    if given == "fp32":
        return Dtypes(4, 4, 4, False)
    if given == "bf16-pure":
        return Dtypes(2, 2, 2, False)
    if engine == "deepspeed":
        return Dtypes(2, 2, 2, False, 4)
    if given == "autocast-bf16" or not sharded:
        return Dtypes(4, 2, 4, True)
    wide = isinstance(job.framework, Torchtitan) or layout.ep > 1
    return Dtypes(4, 2, 4 if wide else 2, False)


def _given_dtypes(given: Precision, engine: Engine, layout: Layout) -> Dtypes:
    stored, computed = BYTES[given.params], BYTES[given.compute]
    master = BYTES[given.main_params] if engine == "deepspeed" and given.params != "fp32" else 0
    gathers = engine in ("fsdp1", "fsdp2") and layout.sharding != "no_shard"
    autocast = stored > computed and not gathers
    return Dtypes(stored, computed, BYTES[given.gradients], autocast, master)


def with_base(dtypes: Dtypes, peft: Peft | None, findings: Findings) -> Dtypes:
    """Mixed precision leaves stored weights as they are: those of a frozen base may be narrow
    already, and where adapters are so too, autocast finds nothing to narrow.
    """
    if peft is None:
        return dtypes
    if dtypes.autocast or dtypes.computed < dtypes.stored:
        base = base_dtype(peft, autocast=dtypes.autocast)
        own = peft.adapter_dtype if isinstance(peft, Lora) else None
        widest = max(BYTES[base], BYTES[own or "fp32"])
        autocast = dtypes.autocast and widest > dtypes.computed
        return dtypes._replace(stored=BYTES[base], autocast=autocast, base=base)
    if peft.base_dtype is not None:
        pointer = "/training/peft/base_dtype"
        message = "without mixed precision it is precision that says how the base is stored"
        findings.add(pointer, "conflict", message, put(pointer, None))
    return dtypes


def base_dtype(peft: Peft, *, autocast: bool) -> BaseDtype:
    """How what is not quantised of a frozen base is stored under mixed precision."""
    if peft.base_dtype is not None:
        return peft.base_dtype
    return "bf16" if peft.quantization is None and autocast else "fp32"


def computes_in_half(precision: PrecisionPreset | Precision) -> bool:
    return (precision.compute if isinstance(precision, Precision) else precision) == "fp16"


RECIPES: tuple[Narrow | None, ...] = (None, "tensorwise", "rowwise")
"""Those of torchao's float8; torchtitan has converters for others of its recipes beside them."""
OF_TORCHTITAN: tuple[Narrow, ...] = ("mxfp8", "nvfp4")


def recipe_of(given: PrecisionPreset | Precision) -> Narrow | None:
    """By what linears multiply. That of the preset is torchao's default."""
    if isinstance(given, str):
        return "tensorwise" if given == "fp8" else None
    return narrow_recipe(given)


def narrow_products(recipe: Narrow | None, *, compiled: bool) -> NarrowProducts | None:
    """How products multiply by a recipe.

    A product in fp8 keeps its input as it is. In mxfp8 what the gradient of the weight reads is
    another copy than the product's own, which a compiled graph makes in forward and keeps, as it is
    smaller. In nvfp4 both copies are one kernel's, of an input and of a weight, and a compiled
    graph makes equal copies once; the product is aten's _scaled_mm_v2, which is not among the
    operations that selective checkpointing keeps. Sources: torchao's float8/float8_linear.py,
    prototype/moe_training/mxfp8_linear.py and nvfp4_training/nvfp4_linear.py; torch's
    _functorch/partitioners.py (solve_min_cut, compute_intensive_ops), compile_utils.py
    (fx_graph_cse).
    """
    if recipe is None:
        return None
    four = recipe == "nvfp4"
    return NarrowProducts(
        recipe,
        COPIES[recipe],
        casts=2 if four or not compiled else 1,
        keeps_columns=four or (recipe == "mxfp8" and compiled),
        shares_columns=compiled,
        keeps_weight=four,
        recognised=not four,
    )


def gathers_fp8(given: PrecisionPreset | Precision) -> bool:
    return isinstance(given, Precision) and given.fp8_param_gather


def states_of(
    dtypes: Dtypes,
    optimizer: Optimizer,
    adapters: Adapters | None,
    *,
    in_fp8: bool,
    embedding_in_fp32: bool,
) -> PytorchStates:
    """Gradients and moments are as wide as the parameters that are stepped; those of embeddings in
    fp32 where what keeps moments in 8 bits is set to (`embedding_in_fp32`).
    """
    stepped = adapters.element_bytes if adapters is not None else dtypes.stored
    own = dtypes.master or stepped
    first, second = (
        BYTES.get(dtype or "", own)
        for dtype in (optimizer.exp_avg_dtype, optimizer.exp_avg_sq_dtype)
    )
    record = OPTIMIZERS[optimizer.name]
    widths = [record.moment_bytes or each for each in (first, second)]
    if record.keeps_momentum and not optimizer.momentum:
        widths = []
    moments = Fraction(sum(widths[: record.moments]))
    gathers = dtypes.computed if not dtypes.autocast else dtypes.stored
    return PytorchStates(
        parameters=dtypes.stored,
        gathered=gathers,
        gathered_matrices=1 if in_fp8 else gathers,
        gradients=stepped,
        reduced=dtypes.reduced,
        master=dtypes.master,
        moments=moments,
        matrix_moments=Fraction(sum(widths[: record.matrix_moments])),
        embedding_moments=Fraction(4 * record.moments) if embedding_in_fp32 else moments,
    )
