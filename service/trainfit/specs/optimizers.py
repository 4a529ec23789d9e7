"""The optimizers, a record each: what they keep, what a step makes for a moment, what launch files
call them. Whoever adds one adds its record here, and its name to `OptimizerName`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple

OptimizerName = Literal[
    "adam",
    "adamw8bit",
    "torchao_adamw8bit",
    "torchao_adamw4bit",
    "adafactor",
    "lion",
    "lion8bit",
    "muon",
    "sgd",
]
Implementation = Literal["fused", "foreach", "for-loop"]
Moments = Literal[0, 1, 2]
LaunchFormat = Literal["transformers", "deepspeed", "torchtune", "torchtitan", "megatron"]

IN_8_BITS = 1 + Fraction(4, 256)
"""Bytes of an element of a moment that bitsandbytes keeps in 8 bits: one, and an fp32 scale for
256 elements. Source: bitsandbytes' optim/optimizer.py (Optimizer2State, get_state_buffer). So has
torchao, whether the byte is a code or fp8 (torchao/optim/subclass_8bit.py, subclass_fp8.py)."""
IN_4_BITS = Fraction(1, 2) + Fraction(4, 128)
"""Two to a byte, and an fp32 scale for 128. Source: torchao/optim/subclass_4bit.py."""


class Temporaries(NamedTuple):
    """What a step makes for a moment: so many tensors like a parameter, like its second moment or
    in bf16, of every parameter at once or of the largest alone.
    """

    tensors: int
    like: Literal["parameter", "second moment", "bf16"]
    of: Literal["all", "largest"]


class OptimizerChoice(NamedTuple):
    """An optimizer as a launch file chooses it. Unset, what computes the step is told apart, and
    moments are as wide as the parameters.
    """

    name: OptimizerName
    implementation: Implementation | None = None
    paged: bool = False
    moments: Literal["fp32"] | None = None


class OptimizerWord(NamedTuple):
    """What a launch format calls an optimizer, and what else the word says."""

    word: str
    implementation: Implementation | None = None
    paged: bool = False
    moments: Literal["fp32"] | None = None


@dataclass(frozen=True, slots=True)
class OptimizerRecord:
    """What is known of an optimizer. `moments` are tensors that it keeps for a parameter, with
    `matrix_moments` for a matrix: as many as a job has types for, `exp_avg` and `exp_avg_sq`.
    """

    about: str
    moments: Moments
    matrix_moments: Moments
    moment_bytes: Fraction | None = None
    """Bytes of an element of each moment, where no job says."""
    keeps_momentum: bool = False
    """PyTorch's keeps its moment only where a momentum is set."""
    megatron: bool = True
    """Whether Megatron has it."""
    precision_aware: bool = False
    """Whether TransformerEngine's reads narrow gradients, and keeps narrow moments."""
    in_8_bits: OptimizerName | None = None
    """The same with moments in 8 bits."""
    of_bitsandbytes: bool = False
    """Whether Trainer can have it keep the moments of embeddings in fp32."""
    temporaries: Mapping[Implementation, Temporaries] = field(default_factory=dict)
    called: Mapping[LaunchFormat, tuple[OptimizerWord, ...]] = field(default_factory=dict)


OPTIMIZERS: Mapping[OptimizerName, OptimizerRecord] = {
    "adam": OptimizerRecord(
        "two moments per parameter",
        moments=2,
        matrix_moments=2,
        precision_aware=True,
        in_8_bits="adamw8bit",
        # torch/optim/adamw.py: the denominator is the square root of the second moment.
        temporaries={
            "foreach": Temporaries(1, "second moment", "all"),
            "for-loop": Temporaries(2, "second moment", "largest"),
        },
        called={
            "transformers": (
                OptimizerWord("adamw_torch", "foreach"),
                OptimizerWord("adamw_torch_fused", "fused"),
                OptimizerWord("adamw_apex_fused", "fused"),
                OptimizerWord("adamw_hf", "for-loop"),
                OptimizerWord("paged_adamw_32bit", "fused", paged=True, moments="fp32"),
                OptimizerWord("paged_adamw", "fused", paged=True, moments="fp32"),
            ),
            "deepspeed": (
                OptimizerWord("adam", "fused"),
                OptimizerWord("adamw", "fused"),
                OptimizerWord("fusedadam", "fused"),
            ),
            "torchtune": (
                OptimizerWord("torch.optim.AdamW"),
                OptimizerWord("torch.optim.Adam"),
                OptimizerWord("bitsandbytes.optim.AdamW"),
                OptimizerWord("bitsandbytes.optim.PagedAdamW", paged=True),
            ),
            "torchtitan": (OptimizerWord("Adam"), OptimizerWord("AdamW")),
            "megatron": (OptimizerWord("adam"),),
        },
    ),
    "adamw8bit": OptimizerRecord(
        "two of 8 bits",
        moments=2,
        matrix_moments=2,
        moment_bytes=IN_8_BITS,
        megatron=False,
        of_bitsandbytes=True,
        called={
            "transformers": (
                OptimizerWord("adamw_bnb_8bit", "fused"),
                OptimizerWord("adamw_8bit", "fused"),
                OptimizerWord("paged_adamw_8bit", "fused", paged=True),
            ),
            "torchtune": (
                OptimizerWord("bitsandbytes.optim.AdamW8bit"),
                OptimizerWord("bitsandbytes.optim.PagedAdamW8bit", paged=True),
            ),
        },
    ),
    # torchao/optim/adam.py: one parameter after the other, by a step that is compiled.
    "torchao_adamw8bit": OptimizerRecord(
        "the same by torchao, of 8 bits or fp8",
        moments=2,
        matrix_moments=2,
        moment_bytes=IN_8_BITS,
        megatron=False,
        called={
            "transformers": (
                OptimizerWord("adamw_torch_8bit", "fused"),
                OptimizerWord("ao_adamw_8bit", "fused"),
                OptimizerWord("ao_adamw_fp8", "fused"),
            ),
            "torchtune": (
                OptimizerWord("torchao.optim.AdamW8bit"),
                OptimizerWord("torchao.optim.AdamWFp8"),
                OptimizerWord("torchao.prototype.low_bit_optim.AdamW8bit"),
                OptimizerWord("torchao.prototype.low_bit_optim.AdamWFp8"),
            ),
        },
    ),
    "torchao_adamw4bit": OptimizerRecord(
        "two of 4 bits",
        moments=2,
        matrix_moments=2,
        moment_bytes=IN_4_BITS,
        megatron=False,
        called={
            "transformers": (
                OptimizerWord("adamw_torch_4bit", "fused"),
                OptimizerWord("ao_adamw_4bit", "fused"),
            ),
            "torchtune": (
                OptimizerWord("torchao.optim.AdamW4bit"),
                OptimizerWord("torchao.prototype.low_bit_optim.AdamW4bit"),
            ),
        },
    ),
    "adafactor": OptimizerRecord(
        "a row and a column of each matrix, which is next to nothing",
        moments=0,
        matrix_moments=0,
        megatron=False,
        # torch/optim/_adafactor.py: an update of the parameter; a loop has two of one at a time.
        temporaries={
            "foreach": Temporaries(1, "parameter", "all"),
            "for-loop": Temporaries(2, "parameter", "largest"),
            "fused": Temporaries(2, "parameter", "largest"),
        },
        called={"transformers": (OptimizerWord("adafactor", "for-loop"),)},
    ),
    "lion": OptimizerRecord(
        "one",
        moments=1,
        matrix_moments=1,
        in_8_bits="lion8bit",
        temporaries=dict.fromkeys(
            ("fused", "foreach", "for-loop"), Temporaries(1, "parameter", "largest")
        ),
        called={
            "transformers": (
                OptimizerWord("lion_32bit", "fused", moments="fp32"),
                OptimizerWord("lion", "fused", moments="fp32"),
                OptimizerWord("paged_lion_32bit", "fused", paged=True, moments="fp32"),
                OptimizerWord("paged_lion", "fused", paged=True, moments="fp32"),
            ),
            "deepspeed": (OptimizerWord("lion", "fused"),),
            "megatron": (OptimizerWord("lion"),),
        },
    ),
    "lion8bit": OptimizerRecord(
        "one of 8 bits",
        moments=1,
        matrix_moments=1,
        moment_bytes=IN_8_BITS,
        megatron=False,
        of_bitsandbytes=True,
        called={
            "transformers": (
                OptimizerWord("lion_8bit", "fused"),
                OptimizerWord("paged_lion_8bit", "fused", paged=True),
            ),
        },
    ),
    "muon": OptimizerRecord(
        "one of matrices and two of the rest",
        moments=2,
        matrix_moments=1,
        # torch/optim/_muon.py: five products of Newton and Schulz's iteration, in bf16.
        temporaries=dict.fromkeys(
            ("fused", "foreach", "for-loop"), Temporaries(5, "bf16", "largest")
        ),
        called={"megatron": (OptimizerWord("dist_muon"),)},
    ),
    "sgd": OptimizerRecord(
        "one where there is momentum",
        moments=1,
        matrix_moments=1,
        keeps_momentum=True,
        called={
            "transformers": (OptimizerWord("sgd", "foreach"),),
            "deepspeed": (OptimizerWord("sgd", "foreach"),),
            "torchtune": (OptimizerWord("torch.optim.SGD"),),
            "megatron": (OptimizerWord("sgd"),),
        },
    ),
}


def choices(launch: LaunchFormat) -> dict[str, OptimizerChoice]:
    """The words of a launch format, and what each chooses."""
    return {
        each.word: OptimizerChoice(name, each.implementation, each.paged, each.moments)
        for name, optimizer in OPTIMIZERS.items()
        for each in optimizer.called.get(launch, ())
    }
