"""Every family by its program, and behind a comma what of it a launch is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.launch.derived import (
    automodel,
    axolotl,
    lingua,
    litgpt,
    llama_factory,
    llm_foundry,
    megatron,
    megatron_bridge,
    nanotron,
    nemo,
    nemo_rl,
    neox,
    primus,
    scripts,
    swift,
    torchtitan,
    torchtune,
    transformers,
    verl,
)
from tests.launch.derived.family import Family

FAMILIES: Final[Mapping[str, Family]] = {
    "Megatron-LM": megatron.LM,
    "Megatron-LM, --yaml-cfg": megatron.YAML,
    "Megatron-DeepSpeed": megatron.DEEPSPEED,
    "slime": megatron.SLIME,
    "GPT-NeoX": neox.DEEPY,
    "GPT-NeoX, its precision": neox.OF_PRECISION,
    "Megatron-Bridge, a recipe": megatron_bridge.RECIPE,
    "Megatron-Bridge, a config": megatron_bridge.CONTAINER,
    "NeMo 2": nemo.PRETRAIN,
    "NeMo-RL": nemo_rl.GRPO,
    "NeMo AutoModel": automodel.FINETUNE,
    "NeMo AutoModel, its command": automodel.OWN,
    "Primus": primus.MEGATRON,
    "ms-swift over Megatron": swift.MEGATRON,
    "ms-swift over Megatron, preferences": swift.DPO,
    "ms-swift over Megatron, GRPO": swift.GRPO,
    "ms-swift": swift.SFT,
    "torchtitan": torchtitan.TRAIN,
    "torchtune": torchtune.FULL,
    "nanotron": nanotron.TRAIN,
    "lingua": lingua.MAIN,
    "litgpt": litgpt.LORA,
    "LLM Foundry": llm_foundry.FSDP,
    "LLM Foundry, on one GPU": llm_foundry.ALONE,
    "verl": verl.PPO,
    "LLaMA-Factory": llama_factory.CONFIGURED,
    "LLaMA-Factory, arguments": llama_factory.ARGUMENTS,
    "axolotl": axolotl.TRAIN,
    "TRL": transformers.TRL,
    "accelerate": transformers.ACCELERATE,
    "DeepSpeed": transformers.ZERO,
    "OpenRLHF": scripts.OPENRLHF,
    "llama-cookbook": scripts.LLAMA_RECIPES,
    "LLaVA": scripts.LLAVA,
    "ArcticTraining": scripts.ARCTIC,
    "open-instruct": scripts.OPEN_INSTRUCT,
}
