#!/bin/bash
# shape of many internal launchers: functions and a main
set -euo pipefail
declare -A LAYERS=([7b]=32 [70b]=80)
declare -A HIDDEN=([7b]=4096 [70b]=8192)
size() {
  local which=$1
  MODEL_ARGS="--num-layers ${LAYERS[$which]} --hidden-size ${HIDDEN[$which]}"
}
launch() {
  local gpus=$1; shift
  python -m torch.distributed.run --nproc-per-node="$gpus" "$@"
}
main() {
  local which="${1:-7b}"
  size "$which"
  launch "${GPUS:-4}" train/pretrain_gpt.py $MODEL_ARGS --bf16
}
main "$@"
