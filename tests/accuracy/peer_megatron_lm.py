"""Rows with what Megatron-LM's own estimator prints, where it is known to be right.

Its activations are no target; what it gets wrong about parameters is left out, with the reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.accuracy.megatron_rows import job_of
from tests.accuracy.outcomes import Counts, counts
from trainfit.estimator.estimate import estimate
from trainfit.questions.estimate import plan_of
from trainfit.resolve.megatron.plan import MegatronPlan

Row = dict[str, Any]


def group(row: Row) -> str:  # noqa: ARG001
    return "peer_megatron_lm"


def price(row: Row, folder: Path) -> dict[str, Counts]:  # noqa: ARG001
    """Totals, padding and bytes per parameter beside the service's."""
    plan = plan_of(job_of(row))
    assert isinstance(plan, MegatronPlan)
    outputs = row["outputs"]
    expected = {**outputs["parameters"], **outputs}
    counted = counted_figures(plan)
    wrong = {name: why for name, why in known_wrong(row).items() if name in counted}
    compared = {name: value for name, value in counted.items() if name not in wrong}
    return {"": counts({name: expected[name] for name in compared}, compared, wrong)}


def known_wrong(row: Row) -> dict[str, str]:
    """Figures that the peer gets wrong for this row, with why."""
    wrong: dict[str, str] = {}
    if row["model"]["qk_layernorm"]:
        why = "the peer leaves out the norms of queries and keys"
        wrong |= dict.fromkeys(("num_total_parameters", "num_active_parameters"), why)
        wrong["num_parameters_on_most_loaded_model_shard"] = why
    if row["parallelism"]["pp"] > 1:
        why = "the peer divides the final norm and uneven stages evenly"
        wrong["num_parameters_on_most_loaded_model_shard"] = why
    if row["parallelism"]["cp"] > 1:
        wrong["bytes_per_param_dense"] = "the peer shards over dp, Megatron over dp * cp"
    return wrong


def counted_figures(plan: MegatronPlan) -> dict[str, float]:
    """The service's figures under the peer's names. The peer counts the padded vocabulary."""
    answered = estimate(plan, activations=False)
    model, published = plan.model, answered.model.parameters
    tables = 1 if model.output_layer.tied else 2
    padding = (plan.vocabulary_rows - model.embedding.rows) * model.hidden_size * tables
    states, layout = plan.step.states, plan.layout
    whole, sharded = states.weights + states.gradients, states.master + states.moments
    return {
        "padded_vocab_size": plan.vocabulary_rows,
        "num_total_parameters": published.total + padding,
        "num_active_parameters": published.active + padding,
        "num_parameters_in_embedding_layers": plan.vocabulary_rows * model.hidden_size * tables,
        "num_parameters_on_most_loaded_model_shard": max(
            sum(chunk.parameters for chunk in stage.chunks) for stage in answered.stages
        ),
        "expert_data_parallel_size": layout.expert_dp,
        "bytes_per_param_dense": whole + sharded / layout.optimizer_shards,
        "bytes_per_param_expert": whole + sharded / layout.expert_optimizer_shards,
    }
