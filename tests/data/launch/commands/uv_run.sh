#!/usr/bin/env bash
# NVIDIA-NeMo/Megatron-Bridge examples, started with uv
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
: "${NUM_GPUS:=8}"
OVERRIDES=(model.tensor_model_parallel_size=2 train.micro_batch_size=1)
[[ "${LONG:-0}" == "1" ]] && OVERRIDES+=(model.seq_length=32768)
exec uv run --no-sync python -m torch.distributed.run --nproc_per_node="$NUM_GPUS" scripts/run_recipe.py --recipe llama3_8b "${OVERRIDES[@]}"
