"""Jobs that the documentation shows, each answered by a test."""

import json
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
TORCHTITAN_8B: dict[str, Any] = {
    "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
    "parallelism": {"num_gpus": 8},
    "training": {
        "micro_batch_size": 1,
        "num_microbatches": 1,
        "seq_length": 8192,
        "recompute": {"granularity": "selective"},
    },
    "framework": {"name": "torchtitan", "compile": True},
    "gpu": "H100-80GB",
}
LORA_8B: dict[str, Any] = {
    "model": {"hf_id": "Qwen/Qwen3-8B"},
    "parallelism": {"num_gpus": 1},
    "training": {
        "micro_batch_size": 2,
        "num_microbatches": 8,
        "seq_length": 4096,
        "precision": "bf16-pure",
        "recompute": {"granularity": "full"},
        "peft": {"method": "lora", "r": 16},
    },
    "framework": {"name": "transformers"},
    "gpu": "L40S",
}

ESTIMATE_EXAMPLES: dict[str, Example] = {
    "deepseek-v3": {
        "summary": "DeepSeek-V3 on 128 GPUs: TP 4, PP 4, EP 8, 16 layers in the last stage",
        "value": DEEPSEEK_V3,
    },
    "llama-3.1-8b": {"summary": "Llama-3.1-8B on one node of eight GPUs", "value": LLAMA_8B},
    "torchtitan": {
        "summary": "Llama-3.1-8B with torchtitan's FSDP on eight GPUs",
        "value": TORCHTITAN_8B,
    },
    "lora": {
        "summary": "LoRA of Qwen3-8B with transformers on one GPU",
        "value": LORA_8B,
    },
}

FIT_CHECK_EXAMPLES: dict[str, Example] = {
    "deepseek-v3": {
        "summary": "DeepSeek-V3 on H200s, of which 5 % stay free",
        "value": {**DEEPSEEK_V3, "gpu": "H200", "policy": {"headroom_ratio": 0.05}},
    },
    "llama-3.1-8b": {
        "summary": "Llama-3.1-8B on one node, and the largest micro-batch that fits",
        "value": {**LLAMA_8B, "limits": {"micro_batch_size": True}},
    },
}
LEDGER_EXAMPLES: dict[str, Example] = {
    "deepseek-v3": {
        "summary": "The stage of DeepSeek-V3 that needs most",
        "value": DEEPSEEK_V3,
    },
    "llama-3.1-8b": {
        "summary": "The only stage of Llama-3.1-8B",
        "value": {**LLAMA_8B, "pp_rank": 0},
    },
}
TRACE_EXAMPLES: dict[str, Example] = {
    "lora-8b": {
        "summary": "LoRA of Llama-3.1-8B on one GPU",
        "value": {**LORA_8B, "parallelism": {"num_gpus": 1}},
    },
    "torchtitan-8b": {"summary": "Llama-3.1-8B under torchtitan", "value": TORCHTITAN_8B},
}
COMPARE_EXAMPLES: dict[str, Example] = {
    "changes": {
        "summary": "What tensor parallelism and recompute would save",
        "value": {
            "job": LLAMA_8B,
            "changes": [
                {
                    "id": "tp 4",
                    "patch": [{"op": "replace", "path": "/parallelism/tp", "value": 4}],
                },
                {
                    "id": "full recompute",
                    "patch": [
                        {
                            "op": "replace",
                            "path": "/training/recompute",
                            "value": {"granularity": "full", "method": "uniform", "num_layers": 1},
                        }
                    ],
                },
            ],
        },
    },
    "jobs": {
        "summary": "Two models beside one another",
        "value": {
            "jobs": [{"id": "small", "job": LLAMA_8B}, {"id": "large", "job": DEEPSEEK_V3}],
            "baseline": "small",
        },
    },
}
LAUNCH_EXAMPLES: dict[str, Example] = {
    "megatron": {
        "summary": "A command line of Megatron-LM",
        "value": {
            "argv": [
                "pretrain_gpt.py",
                *("--num-layers", "32", "--hidden-size", "4096", "--num-attention-heads", "32"),
                *("--ffn-hidden-size", "14336", "--swiglu", "--group-query-attention"),
                *("--num-query-groups", "8", "--normalization", "RMSNorm"),
                *("--position-embedding-type", "rope", "--disable-bias-linear"),
                *("--untie-embeddings-and-output-weights", "--vocab-size", "128256"),
                *("--seq-length", "8192", "--max-position-embeddings", "8192"),
                *("--micro-batch-size", "1", "--global-batch-size", "128", "--bf16"),
                *("--tensor-model-parallel-size", "2", "--sequence-parallel"),
                *("--use-distributed-optimizer", "--lr", "3e-4"),
            ],
            "overrides": {"parallelism": {"num_gpus": 8}},
            "gpu": "H100-80GB",
        },
    },
}
DRAFT_EXAMPLES: dict[str, Example] = {
    "script": {
        "summary": "A script with a program of its own",
        "value": {
            "files": [
                {
                    "path": "train.sh",
                    "content": "LENGTH=4096\nsrun -n 16 mytrainer --model-name-or-path "
                    "meta-llama/Llama-3.1-8B --seq_len $LENGTH --tp-size 2 --micro_batch_size 4\n",
                }
            ]
        },
    },
}
TO_LAUNCH_EXAMPLES: dict[str, Example] = {
    "megatron": {
        "summary": "Llama-3.1-8B as Megatron-LM's arguments",
        "value": {
            "job": {
                **LLAMA_8B,
                "training": {**LLAMA_8B["training"], "attention": {"backend": "flash"}},
            },
            "to": "megatron-args",
        },
    },
    "torchtitan": {
        "summary": "Llama-3.1-8B in torchtitan's keys",
        "value": {
            "job": {
                **TORCHTITAN_8B,
                "framework": {**TORCHTITAN_8B["framework"], "expandable_segments": True},
            },
            "to": "torchtitan",
        },
    },
}
LOG_EXAMPLES: dict[str, Example] = {
    "megatron": {
        "summary": "A log of Megatron-LM",
        "value": {
            "artifacts": [
                {
                    "name": "train.log",
                    "text": "[Rank 0] (after 2 iterations) memory (MB) | allocated: 18310.55 | "
                    "max allocated: 52014.09 | reserved: 55210.00 | max reserved: 55210.00\n"
                    " iteration        2/     100 | elapsed time per iteration (ms): 4821.3 | "
                    "throughput per GPU (TFLOP/s/GPU): 421.7 |\n",
                }
            ]
        },
    },
}
RECONCILE_EXAMPLES: dict[str, Example] = {
    "megatron": {
        "summary": "A run of Megatron-LM beside its job",
        "value": {
            "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
            "parallelism": {"num_gpus": 8, "tp": 2},
            "training": {"seq_length": 8192, "loss": {"cross_entropy": "te_fused"}},
            "gpu": "H100-80GB",
            "run": {
                "artifacts": [
                    {
                        "name": "train.log",
                        "text": "[Rank 0] (after 2 iterations) memory (MB) | allocated: 35412.18 | "
                        "max allocated: 72601.27 | reserved: 75712.00 | max reserved: 75712.00\n",
                    }
                ]
            },
        },
    },
}
CALIBRATION_EXAMPLES: dict[str, Example] = {
    "full-memory": {
        "summary": "A run that filled the memory of its cards",
        "value": {
            "driver": "570.86.15",
            "runs": [
                {
                    "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
                    "parallelism": {"num_gpus": 8, "tp": 2},
                    "training": {"seq_length": 8192, "micro_batch_size": 2},
                    "gpu": "H100-80GB",
                    "run": {
                        "artifacts": [
                            {
                                "name": "train.log",
                                "text": "[rank3]: torch.OutOfMemoryError: CUDA out of memory. "
                                "Tried to allocate 3.91 GiB. GPU 3 has a total capacity of "
                                "79.11 GiB of which 1.23 GiB is free. Process 1172 has 77.88 GiB "
                                "memory in use. Of the allocated memory 73.10 GiB is allocated "
                                "by PyTorch, and 1.94 GiB is reserved by PyTorch but "
                                "unallocated.\n",
                            }
                        ]
                    },
                }
            ],
        },
    },
}
ADMISSION_EXAMPLES: dict[str, Example] = {
    "job": {
        "summary": "A Job on its way into a cluster",
        "value": {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
                "kind": {"group": "batch", "version": "v1", "kind": "Job"},
                "operation": "CREATE",
                "namespace": "research",
                "object": {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "metadata": {
                        "name": "llama-8b",
                        "annotations": {"trainfit.dev/job": json.dumps(LLAMA_8B)},
                    },
                    "spec": {
                        "template": {
                            "spec": {
                                "containers": [
                                    {
                                        "name": "train",
                                        "image": "example/train",
                                        "resources": {"limits": {"nvidia.com/gpu": "8"}},
                                    }
                                ],
                                "restartPolicy": "Never",
                            }
                        },
                    },
                },
            },
        },
    },
}
BATCH_EXAMPLES: dict[str, Example] = {
    "two": {
        "summary": "Two jobs",
        "value": {
            "jobs": [{"id": "small", "job": LLAMA_8B}, {"id": "large", "job": DEEPSEEK_V3}],
        },
    },
}
MODEL_EXAMPLES: dict[str, Example] = {
    "deepseek-v3": {
        "summary": "DeepSeek-V3 as it is now",
        "value": {"model": {"hf_id": "deepseek-ai/DeepSeek-V3"}},
    },
    "llama-3.1-8b": {
        "summary": "The main branch of a model that is gated: X-HF-Token opens it",
        "value": {"model": {"hf_id": "meta-llama/Llama-3.1-8B", "revision": "main"}},
    },
}

SEARCH_EXAMPLES: dict[str, Example] = {
    "fastest": {
        "summary": "The fastest layout of Llama 3.1 70B on 64 H100",
        "value": {
            "model": {"hf_id": "meta-llama/Llama-3.1-70B"},
            "parallelism": {"num_gpus": 64},
            "training": {"global_batch_size": 128, "seq_length": 8192},
            "gpu": "H100-80GB",
            "objective": "fastest",
        },
    },
    "fewest-gpus": {
        "summary": "The fewest A100 that Mixtral 8x7B fits on",
        "value": {
            "model": {"hf_id": "mistralai/Mixtral-8x7B-v0.1"},
            "training": {"global_batch_size": 256, "seq_length": 4096},
            "gpu": "A100-80GB",
            "objective": "fewest_gpus",
        },
    },
}
