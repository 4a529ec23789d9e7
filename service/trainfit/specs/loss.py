"""What a step learns, and how that is computed from the logits."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from trainfit.specs.honoured import (
    IGNORED_UNDER_MEGATRON,
    MEGATRON,
    OF_PYTORCH,
    OF_TRANSFORMERS,
    PYTORCH,
    Frameworks,
    Only,
    OnlyValues,
)
from trainfit.specs.part import Part, TokenCount

Shifted = Literal["labels", "logits", "fp32_logits"]
LogProbs = Literal[
    "trl-0.9",
    "trl-0.12",
    "trl-0.15",
    "trl-0.19",
    "trl-0.29",
    "trl-1.6",
    "trl-1.15",
    "trl-orpo-0.9",
    "trl-orpo-0.15",
    "trl-kto-0.9",
    "trl-kto-0.15",
    "trl-kto-0.17",
    "trl-kto-1.6",
    "trl-kto-1.7",
    "trl-kto-1.8",
    "trl-kto-1.9",
    "llama-factory",
    "llama-factory-kto",
    "ms-swift",
    "openrlhf",
    "openrlhf-divided",
    "torchtune-lora",
    "torchtune-full",
    "trl-grpo-0.16",
    "trl-grpo-0.20",
    "trl-grpo-0.23",
    "trl-grpo-1.0",
    "trl-grpo-1.10",
    "trl-grpo-1.14",
    "verl",
    "verl-0.9",
    "verl-padded",
    "verl-fused",
    "slime",
    "slime-divided",
    "nemo-rl",
]
Entropy = Literal["none", "compiled", "whole", "remade"]
SHIFTED: Mapping[str, Frameworks] = dict.fromkeys(("logits", "fp32_logits"), PYTORCH)
OF_ACTORS = Only(("transformers", "megatron"))
OBJECTIVES: Mapping[str, Frameworks] = {
    "reward": ("transformers",),
    **dict.fromkeys(("preference", "policy"), OF_ACTORS.frameworks),
}
LOSSES: Mapping[str, Frameworks] = {
    **dict.fromkeys(("native_fused", "te_fused"), MEGATRON),
    **dict.fromkeys(("fused", "liger", "cut", "chunked", "chunked_nll"), PYTORCH),
}


class Loss(Part):
    """What is learned, and how cross entropy is computed from the logits."""

    objective: Annotated[
        Literal["next_token", "reward", "preference", "policy"], OnlyValues(OBJECTIVES)
    ] = Field(
        "next_token",
        description="What is learned: the next token of each, or which sample of a pair is "
        "preferred, by a head of one value in the place of the vocabulary's (reward), or by "
        "the log-probabilities of both (preference: DPO and the like). A micro-batch counts "
        "both samples of a pair. policy: which tokens that the model has generated did well, "
        "by their log-probabilities (GRPO and the like); what generates is no part of it.",
    )
    reference: Annotated[Literal["none", "base", "copy"], OF_ACTORS] = Field(
        "none",
        description="preference, policy: the model whose log-probabilities are computed beside, or "
        "before a step of a policy. base: its own one, adapters switched off; copy: a second one, "
        "shared out as the policy's weights are. Those that were computed before need none.",
    )
    log_probs_by: Annotated[LogProbs, OF_ACTORS] = Field(
        "trl-1.15",
        description="preference, policy: whose code computes log-probabilities: TRL's from this "
        "release on, before 0.15 of all logits at once, since then of a sample after the other, "
        "since 1.15 without whole logits; of its ORPO and CPO, or of its KTO; LLaMA-Factory's, "
        "of all logits in fp32; ms-swift's DPO and KTO; OpenRLHF's, by one kernel over logits in "
        "fp32; or torchtune's recipes. Of a policy that of TRL's GRPO, from 1.15 on trl-1.15; "
        "verl's actor's, of packed tokens up to v0.8 (verl) or since, of padded samples, or with "
        "the head in one (verl-fused); or OpenRLHF's actor's, at a temperature of 1 or another "
        "(openrlhf-divided). Under Megatron verl's actor (verl, verl-fused), slime's, at a "
        "temperature of 1 or another (slime-divided), ms-swift's, or NeMo-RL's (nemo-rl).",
    )
    entropy: Annotated[Entropy, OF_ACTORS] = Field(
        "none",
        description="policy of verl, OpenRLHF or slime: how an entropy of the logits is computed, "
        "where it is a part of the loss: by a compiled kernel, of all logits in fp32 at once, or "
        "so and made again in backward. Under Megatron of all at once.",
    )
    scored_tokens: Annotated[TokenCount | None, OF_TRANSFORMERS] = Field(
        None,
        description="policy: tokens of a rank whose log-probabilities are computed at once without "
        "gradients, when samples are made. Unset: no more than a micro-batch has.",
    )
    chosen_nll: Annotated[bool, OF_TRANSFORMERS] = Field(
        False,
        description="preference: the cross entropy of chosen samples is a part of the loss (ORPO, "
        "CPO, DPO's rpo_alpha).",
    )
    scored_beside_optimizer: Annotated[bool, OF_TRANSFORMERS] = Field(
        True,
        description="policy: the optimizer's states are on the card while samples are scored, and "
        "do not wait in host memory.",
    )
    cross_entropy: Annotated[
        Literal[
            "unfused",
            "native_fused",
            "te_fused",
            "fused",
            "liger",
            "cut",
            "chunked",
            "chunked_nll",
        ],
        OnlyValues(LOSSES),
    ] = Field(
        "unfused",
        description="native_fused, te_fused: Megatron's --cross-entropy-loss-fusion and its "
        "implementation. Outside Megatron: fused is one kernel over logits in their own type "
        "(flash-attn's, Apex's, a compiled one), liger one kernel for head and loss, cut Cut "
        "Cross-Entropy, which makes no logits, chunked the loss of num_chunks parts of the "
        "sequence one after the other, chunked_nll TRL's of such parts.",
    )
    num_chunks: Annotated[int, Field(ge=1, le=65_536), IGNORED_UNDER_MEGATRON] = Field(
        8, description="chunked, chunked_nll: parts of the sequence."
    )
    shifted: Annotated[Shifted, OnlyValues(SHIFTED)] = Field(
        "labels",
        description="Outside Megatron, unfused: what is moved so that a token predicts the next. "
        "labels, as in transformers since 4.49; or logits, which are copied: logits in fp32 within "
        "the loss beside the model's own (4.46 to 4.48), fp32_logits in place of them (before).",
    )
    logits_to_keep: Annotated[TokenCount | None, OF_PYTORCH] = Field(
        None,
        description="Outside Megatron: logits of so many last tokens only. Unset: of all. policy: "
        "how many tokens were generated, each with a log-probability.",
    )
