#!/bin/bash
# shape of sweeps and of options that are gathered in a loop
MODULES=""
for module in core_attn mlp moe; do
  MODULES="$MODULES $module"
done
i=0
while [ $i -lt 3 ]; do
  ((i++))
done
for tp in 8; do
  python -m torch.distributed.launch --nproc_per_node=8 --use_env pretrain_gpt.py --tensor-model-parallel-size $tp --recompute-modules $MODULES --pipeline-model-parallel-size $i
done
