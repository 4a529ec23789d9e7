# volcengine/verl examples/sft/gsm8k/run_qwen_05_sp2.sh
set -x
if [ "$#" -lt 2 ]; then
    echo "Usage: sft.sh <nproc_per_node> <save_path> [more]"
    exit 1
fi
nproc_per_node=$1
save_path=$2
# the rest goes to the trainer
shift 2
torchrun --standalone --nnodes=1 --nproc_per_node=$nproc_per_node \
     -m verl.trainer.fsdp_sft_trainer \
    data.train_files=$HOME/gsm8k/train.parquet \
    data.prompt_dict_keys=['question'] \
    +data.response_dict_keys=['answer'] \
    model.partial_pretrain=Qwen/Qwen2.5-0.5B-Instruct \
    trainer.default_local_dir=$save_path $@ \
    ulysses_sequence_parallel_size=2
