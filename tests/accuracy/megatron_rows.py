"""Rows in Megatron's own names -> jobs."""

from __future__ import annotations

from typing import Any

from tests.accuracy.outcomes import UnusableRowError
from trainfit.specs.job import Job
from trainfit.specs.parallelism import Parallelism
from trainfit.specs.transformer_config import TransformerConfig

Row = dict[str, Any]

RECOMPUTE = frozenset(
    {
        "recompute_granularity",
        "recompute_method",
        "recompute_num_layers",
        "recompute_modules",
    }
)
TRAINING = frozenset({"micro_batch_size", "global_batch_size", "seq_length"})

TRANSLATED = frozenset(
    {
        "tie_word_embeddings",
        "make_vocab_size_divisible_by",
        "attention_dropout",
        "hidden_dropout",
    }
)
"""Names that stand elsewhere in a job."""

SAYS_NOTHING = frozenset({"moe_router_enable_expert_bias", "num_microbatches", "dp"})
"""The expert bias is a buffer; micro-batches and dp follow from other sizes."""


def job_of(row: Row) -> Job:
    """The job of a row of `megatron_stage_parameters.jsonl` or `peer_megatron_lm.jsonl`."""
    model, training = _given(row["model"]), _given(row["training"] or {})
    dropout = model["attention_dropout"], model["hidden_dropout"]
    return Job.model_validate(
        {
            "model": {
                "spec": _fields(model, _names(TransformerConfig))
                | {"untie_embeddings_and_output_weights": not model["tie_word_embeddings"]}
            },
            "parallelism": _fields(_given(row["parallelism"]), _names(Parallelism)),
            "training": {
                **_fields(training, TRAINING, ignored=RECOMPUTE),
                "recompute": _fields(training, RECOMPUTE, ignored=TRAINING),
                "attention": {"dropout": dropout[0]},
                "hidden_dropout": dropout[1],
            },
            "framework": {
                "name": "megatron",
                "make_vocab_size_divisible_by": model["make_vocab_size_divisible_by"],
            },
        }
    )


def model_and_layout(row: Row) -> str:
    """What names a row without an id: its model, its layout and its step."""
    parts = (row["parallelism"], row["training"] or {})
    sizes = (
        f"{name}={value}"
        for part in parts
        for name, value in part.items()
        if value not in (None, False)
    )
    return " ".join((row["model"]["name"], *sizes))


def _given(values: Row) -> Row:
    """A row's null says nothing."""
    return {name: value for name, value in values.items() if value is not None}


def _fields(values: Row, names: frozenset[str], *, ignored: frozenset[str] = frozenset()) -> Row:
    unknown = sorted(set(values) - names - TRANSLATED - SAYS_NOTHING - ignored)
    if unknown:
        raise UnusableRowError(f"a job has no field for {', '.join(unknown)}")
    return {name: value for name, value in values.items() if name in names}


def _names(part: type[TransformerConfig] | type[Parallelism]) -> frozenset[str]:
    """Every name that a part of a job accepts, Megatron's long ones included."""
    names = set(part.model_fields)
    for field in part.model_fields.values():
        names |= set(getattr(field.validation_alias, "choices", ()))
    return frozenset(names)
