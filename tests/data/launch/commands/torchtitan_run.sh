#!/usr/bin/bash
# pytorch/torchtitan run_train.sh
set -ex
NGPU=${NGPU:-"8"}
export LOG_RANK=${LOG_RANK:-0}
CONFIG_FILE=${CONFIG_FILE:-"./llama3/debug.toml"}
COMM_MODE=${COMM_MODE:-""}
if [ -n "$COMM_MODE" ]; then
    NGPU="${NGPU}" LOCAL_RANK=0 python3 -m torchtitan.train --job.config_file ${CONFIG_FILE} "$@"
else
    PYTORCH_ALLOC_CONF="expandable_segments:True" \
    torchrun --nproc_per_node=${NGPU} --rdzv_backend c10d --rdzv_endpoint="localhost:0" \
    --local-ranks-filter ${LOG_RANK} --role rank --tee 3 \
    -m torchtitan.train --job.config_file ${CONFIG_FILE} "$@"
fi
