"""The flags of a job. Each is a field of the specs: its names, type and help are the field's own,
so that flag, JSON Pointer and explanation are defined once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from cyclopts import Group, Parameter
from pydantic import AliasChoices
from pydantic.fields import FieldInfo
from typing_extensions import TypeAliasType

from trainfit.cli.values import list_of, number_of
from trainfit.specs.framework import DeepSpeed, Framework, FrameworkName
from trainfit.specs.job import Job
from trainfit.specs.loss import Loss
from trainfit.specs.parallelism import Parallelism
from trainfit.specs.part import Part
from trainfit.specs.peft import Lora, PrefixTuning, PromptTuning, PTuning
from trainfit.specs.training import (
    AttentionOptions,
    Lengths,
    MoeOptions,
    MtpOptions,
    Optimizer,
    Recompute,
    Training,
)
from trainfit.specs.transformer_config import TransformerConfig

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a job whose plain fields are flags, named with a prefix."""

    title: str
    pointer: str
    part: type[Part]
    prefix: str = ""


ARCHITECTURE = "/model/spec"

FRAMEWORKS = tuple(
    Section(part.called, "/framework", part) for part in get_args(get_args(Framework)[0])
)

SECTIONS = (
    Section("An architecture in place of MODEL", ARCHITECTURE, TransformerConfig),
    Section("Parallelism", "/parallelism", Parallelism),
    Section("Training", "/training", Training),
    Section("Training", "/training/lengths", Lengths, "lengths_"),
    Section("Recompute", "/training/recompute", Recompute, "recompute_"),
    Section("Optimizer", "/training/optimizer", Optimizer, "optimizer_"),
    Section("Attention and loss", "/training/attention", AttentionOptions, "attention_"),
    Section("Attention and loss", "/training/loss", Loss),
    Section("Experts and multi-token prediction", "/training/moe", MoeOptions, "moe_"),
    Section("Experts and multi-token prediction", "/training/mtp", MtpOptions, "mtp_"),
    Section("Fine-tuning", "/training/peft", Lora, "lora_"),
    Section("Fine-tuning", "/training/peft", PromptTuning),
    Section("Fine-tuning", "/training/peft", PTuning),
    Section("Fine-tuning", "/training/peft", PrefixTuning),
    *FRAMEWORKS,
    Section("transformers", "/framework/deepspeed", DeepSpeed, "deepspeed_"),
    Section("GPU", "", Job),
)

NAMES = {
    "/training/recompute/distribute_saved_activations": ("distribute_saved_activations",),
    "/training/lengths/pad_to_multiple_of": ("pad_to_multiple_of",),
    "/training/lengths/group_by_length": ("group_by_length",),
    "/training/optimizer/name": ("optimizer",),
    "/training/optimizer/exp_avg_dtype": ("exp_avg_dtype",),
    "/training/optimizer/exp_avg_sq_dtype": ("exp_avg_sq_dtype",),
    "/training/optimizer/cpu_offload_fraction": ("optimizer_offload_fraction",),
    "/training/peft/quantization": ("peft_quantization", "lora_quantization"),
    "/training/peft/double_quantization": (
        "peft_double_quantization",
        "lora_double_quantization",
    ),
    "/training/peft/base_dtype": ("peft_base_dtype",),
}
"""Names that are not the section's prefix and the field: Megatron's, and of what two parts have."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One field of a job on the command line. `spellings` are its names in a job file."""

    pointer: str
    names: tuple[str, ...]
    spellings: tuple[str, ...]
    kind: Any
    help: str
    title: str

    @property
    def keyword(self) -> str:
        """The name of the parameter that receives it."""
        return self.pointer.strip("/").replace("/", "_")

    def written(self, value: Any) -> str:
        """The flag as one would type it to give this value."""
        name = self.names[0]
        if isinstance(value, bool):
            return name if value else name.replace("--", "--no-", 1)
        values = value if isinstance(value, list | tuple) else [value]
        return " ".join([name, *(str(each) for each in values)])


SET = "set"
"""The keyword of what sets any field by its pointer."""

CALIBRATION = "calibration"
"""The keyword of the file of a calibration."""

DISCRIMINATORS = (
    Flag(
        pointer="/framework/name",
        names=("--framework",),
        spellings=("name",),
        kind=FrameworkName,
        help="Who runs the step. Unset: megatron.",
        title="Parallelism",
    ),
    Flag(
        pointer="/training/peft/method",
        names=("--peft",),
        spellings=("method",),
        kind=Literal["lora", "prompt_tuning", "p_tuning", "prefix_tuning"],
        help="What is trained in place of the weights.",
        title="Fine-tuning",
    ),
)
"""Fields that say which kind of part they stand in."""

VOCABULARY = Flag(
    pointer="/model/spec/vocab_size",
    names=("--vocab-size",),
    spellings=("vocab_size",),
    kind=int,
    help="Rows of the embedding, before padding: over a launch whose tokenizer tells them.",
    title="An architecture in place of MODEL",
)

NO_FLAGS = (f"{ARCHITECTURE}/name", f"{ARCHITECTURE}/mtp_num_layers")
"""A name is for job files; the depths of multi-token prediction have a flag at the training."""

LENGTHS = ("/training/seq_length", f"{ARCHITECTURE}/max_position_embeddings")
"""What may be written in thousands of tokens: 4k are 4096."""


@cache
def flags() -> Mapping[str, Flag]:
    """Every flag by the pointer of its field: of parts that share a field the first one's."""
    found = {flag.pointer: flag for flag in (*DISCRIMINATORS, VOCABULARY)}
    for section in SECTIONS:
        for flag in _section(section):
            found.setdefault(flag.pointer, flag)
    return found


def flag_at(pointer: str) -> Flag | None:
    """The flag whose field this pointer names or leads into."""
    while pointer:
        if pointer in flags():
            return flags()[pointer]
        pointer = pointer.rpartition("/")[0]
    return None


FACTS = ("/parallelism/num_gpus", "/training/seq_length", VOCABULARY.pointer)
"""What a launch file leaves to its surroundings more often than anything else."""


COMMON = (
    "/framework/name",
    *(f"/parallelism/{each}" for each in ("num_gpus", "tp", "pp", "cp", "ep")),
    *(f"/training/{each}" for each in ("micro_batch_size", "global_batch_size", "seq_length")),
    "/training/precision",
    "/training/recompute/granularity",
    "/training/optimizer/name",
    "/training/peft/method",
    "/gpu",
)
"""What is typed most, and shown where not everything is asked for."""


def takes_job_flags(command: Callable[..., Answer]) -> Callable[..., Answer]:
    """Put a keyword for every flag of a job in the place of a command's `**flags`."""
    return _with_flags(command, COMMON)


def takes_flags_over_files(command: Callable[..., Answer]) -> Callable[..., Answer]:
    """Gives the flags of a job to a command that takes files; its help shows those for what they
    lack.
    """
    return _with_flags(command, FACTS)


def _with_flags(command: Callable[..., Answer], shown: Container[str]) -> Callable[..., Answer]:
    """Put a keyword for every flag, and for --set and --calibration, in the place of a command's
    `**flags`. What the command has of its own under such a keyword stays its own.
    """
    signature = inspect.signature(command, eval_str=True)
    own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    taken = {each.name for each in own}
    others = (flag for flag in flags().values() if flag.keyword not in taken)
    parameters = [*own, *(_parameter(flag, shown=shown) for flag in others), _SET, _CALIBRATION]
    sign(command, signature.replace(parameters=parameters))
    return command


def sign(command: Callable[..., Any], signature: inspect.Signature) -> None:
    """Let a command take these parameters, wherever one asks what it takes."""
    vars(command)["__signature__"] = signature
    command.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()}


def _section(section: Section) -> Iterator[Flag]:
    for name, field in section.part.model_fields.items():
        pointer = f"{section.pointer}/{name}"
        kind = _plain(field.annotation)
        if kind is None or pointer in NO_FLAGS:
            continue
        spellings = _spellings(name, field)
        stems = spellings
        if section.prefix:
            aliases = (each for each in spellings if each != name)
            stems = tuple(dict.fromkeys([section.prefix + name, *aliases]))
        stems = NAMES.get(pointer, stems)
        yield Flag(
            pointer=pointer,
            names=tuple(f"--{stem.replace('_', '-')}" for stem in stems),
            spellings=spellings,
            kind=kind,
            help=field.description or "",
            title=section.title,
        )


def _spellings(name: str, field: FieldInfo) -> tuple[str, ...]:
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return tuple(str(choice) for choice in alias.choices)
    return (name,)


def _plain(annotation: Any) -> Any:
    """The type that a flag's value has; None for a field that is itself made of fields."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, TypeAliasType):
        return _plain(annotation.__value__)
    if origin is Annotated:
        return _plain(arguments[0])
    if origin in (Union, UnionType):
        kinds = (_plain(each) for each in arguments if each is not NoneType)
        return next((kind for kind in kinds if kind is not None), None)
    if origin is tuple:
        return list[_plain(arguments[0])]  # type: ignore[misc]
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return None
    return annotation


@cache
def _group(title: str) -> Group:
    return Group(title, sort_key=[section.title for section in SECTIONS].index(title))


def _parameter(flag: Flag, *, shown: Container[str]) -> inspect.Parameter:
    listed = get_origin(flag.kind) is list
    about = Parameter(
        name=flag.names,
        converter=_converter(flag, listed=listed),
        help=flag.help,
        group=_group(flag.title),
        consume_multiple=listed,
        show=flag.pointer in shown,
        negative=() if listed else None,
    )
    return inspect.Parameter(
        flag.keyword,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[flag.kind | None, about],
    )


def _converter(flag: Flag, *, listed: bool) -> Callable[..., Any] | None:
    if listed:
        return list_of
    if flag.kind is int:
        return number_of(flag.names[0], length=flag.pointer in LENGTHS)
    return None


_SET = inspect.Parameter(
    SET,
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        list[str] | None,
        Parameter(
            name="--set",
            help="/pointer=VALUE sets any field of a job, null takes it away: "
            "/training/peft/r=16. The value is JSON, or else a text. May be repeated.",
            group=_group("Parallelism"),
            negative=(),
            show=False,
        ),
    ],
)

_CALIBRATION = inspect.Parameter(
    CALIBRATION,
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        Path | None,
        Parameter(
            help="What `trainfit calibrate` printed of the cluster.",
            group=_group("Parallelism"),
            show=False,
        ),
    ],
)
