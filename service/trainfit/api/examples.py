"""Jobs that the documentation shows, each answered by a test."""

from typing import Any

from fastapi.openapi.models import Example

DEEPSEEK_V3: dict[str, Any] = {
    "model": {"hf_id": "deepseek-ai/DeepSeek-V3"},
    "parallelism": {
        "num_gpus": 128,
        "tp": 4,
        "pp": 4,
        "ep": 8,
        "num_layers_in_last_pipeline_stage": 16,
    },
    "training": {"micro_batch_size": 1, "seq_length": 4096},
    "framework": {"name": "megatron"},
    "gpu": "H100-80GB",
}
LLAMA_8B: dict[str, Any] = {
    "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
    "parallelism": {"num_gpus": 8, "tp": 2},
    "training": {
        "micro_batch_size": 1,
        "global_batch_size": 128,
        "seq_length": 8192,
        "recompute": {"granularity": "selective", "modules": ["core_attn"]},
    },
    "framework": {"name": "megatron"},
    "gpu": "H100-80GB",
}

ESTIMATE_EXAMPLES: dict[str, Example] = {
    "deepseek-v3": {
        "summary": "DeepSeek-V3 on 128 GPUs: TP 4, PP 4, EP 8, 16 layers in the last stage",
        "value": DEEPSEEK_V3,
    },
    "llama-3.1-8b": {"summary": "Llama-3.1-8B on one node of eight GPUs", "value": LLAMA_8B},
}
