"""How a model's experts run, which turns on the release of transformers."""

from __future__ import annotations

from trainfit.launch.keys import words
from trainfit.launch.models import text_config_of
from trainfit.launch.transformers.changes import STACKS_EXPERTS
from trainfit.launch.transformers.run import TrainerRun

ONE_BY_ONE = words("""
deepseek_v2 deepseek_v3 dots1 ernie4_5_moe flex_olmo glm4_moe glm4v_moe hunyuan_v1_moe jamba
longcat_flash minimax mixtral olmoe phimoe qwen2_moe qwen3_moe qwen3_next qwen3_omni_moe
""")
"""model_types whose experts were modules in a list before transformers 5.0, each of which took its
rows behind the other (modeling_mixtral.py and the like of 4.48 and 4.57, for expert_idx in)."""


def put_experts(run: TrainerRun) -> None:
    """Set whether experts run one after the other."""
    model_type = text_config_of(run.draft).get("model_type")
    if model_type in ONE_BY_ONE and not run.releases.has(STACKS_EXPERTS):
        run.draft.default("/framework/experts_one_by_one", True, "transformers before 5.0")
