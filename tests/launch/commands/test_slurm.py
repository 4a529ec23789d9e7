"""What Slurm scripts ask for."""

from __future__ import annotations

import pytest

from tests.launch.commands.programs import command_line, launch, num_gpus, program
from tests.launch.launches import read
from trainfit.launch.read import read_launch


def script(*directives: str, body: str = "srun python t.py") -> str:
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {each}" for each in directives), body])


@pytest.mark.parametrize(
    ("directives", "gpus"),
    [
        (["--nodes=2", "--ntasks-per-node=8"], 16),
        (["-N 2", "-n 12"], 12),
        (["-N2 --tasks-per-node 4  # so many"], 8),
        (["--ntasks=4"], 4),
        (["--nodes=3"], 3),
        (["--nodes=2-4", "--ntasks-per-node=8"], None),
        ([], None),
    ],
)
def test_tasks_of_srun_are_gpus(directives: list[str], gpus: int | None) -> None:
    assert num_gpus(program(run_slurm=script(*directives))) == gpus


@pytest.mark.parametrize(
    ("directive", "gpus"),
    [
        ("--gres=gpu:8", "8"),
        ("--gres=gpu:h100:4", "4"),
        ("--gres gpu", "1"),
        ("--gpus-per-node=a100:4", "4"),
        ("--gpus=16", "8"),
        ("-G h100:16", "8"),
        ("--gpus-per-task=8", "8"),
    ],
)
def test_variables_follow_from_what_is_asked_for(directive: str, gpus: str) -> None:
    body = "torchrun --nnodes $SLURM_NNODES --nproc_per_node $SLURM_GPUS_ON_NODE t.py"
    found = program(run_slurm=script("--nodes=2", directive, body=body))
    assert [each.value for each in found.num_gpus] == [int(gpus), 2]


def test_what_sbatch_is_told_counts_over_the_script() -> None:
    text = script("--nodes=2", "--ntasks-per-node=8")
    assert num_gpus(program("sbatch --nodes=4 run.slurm", run_slurm=text)) == 32
    assert num_gpus(program("sbatch -N1 -n 3 --wrap 'srun python t.py'")) is None
    found = program("sbatch run.slurm a b", run_slurm=script(body="torchrun t.py $2 $1"))
    assert command_line(found) == "t.py b a"


def test_directives_end_with_the_first_command() -> None:
    text = script("--nodes=2", body="export A=1\n#SBATCH --nodes=9\nsrun python t.py")
    assert num_gpus(program(run_slurm=text)) == 2


def test_the_model_of_a_gpu_becomes_the_card_where_it_is_one() -> None:
    body = "srun torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --vocab-size 1024 "
    body += "--hidden-size 256 --num-attention-heads 4 --seq-length 64 --micro-batch-size 1"
    known = read_launch(launch(run_slurm=script("--gres=gpu:h100:8", body=body)))
    assert known.job["gpu"] == "h100"
    of_two_sizes = read_launch(launch(run_slurm=script("--gres=gpu:a100:8", body=body)))
    assert "gpu" not in of_two_sizes.job


def test_switches_of_srun_may_stand_in_one_word() -> None:
    assert command_line(program(run_sh='srun -lu bash -c "python t.py --b 2"')) == "t.py --b 2"


@pytest.mark.parametrize(
    ("asked", "before", "copies"),
    [
        ("-G 6", "", True),
        ("--gres=gpu:a100:4", "", True),
        ("--gpus-per-node=2", "", True),
        ("--gres=gpu:1", "", False),
        ("--gres=gpu:4", "CUDA_VISIBLE_DEVICES=3 ", False),
    ],
)
def test_trainer_on_its_own_makes_copies_on_each_card_of_a_node(
    asked: str, before: str, copies: bool
) -> None:
    """torch's DataParallel: Dhawgupta/quantifying_exposure_bias starts run_clm.py so on six."""
    body = (
        f"{before}python run_clm.py --model_name_or_path gpt2 --dataset_name wikitext --do_train "
        "--per_device_train_batch_size 6 --block_size 256 --output_dir oracle256"
    )
    found = read(launch(run_slurm=script(asked, body=body)))
    assert found.field("/parallelism/num_gpus") == 1
    assert [each.why for each in found.account.unsupported] == (
        ["DataParallel over these cards is not modelled"] if copies else []
    )


@pytest.mark.parametrize(
    ("body", "gpus"),
    [
        ('n=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | wc -l)', 32),
        ("n=$(scontrol show hostnames | wc -w)", 32),
        ("n=$(scontrol show hostnames other[1-3] | wc -l)", None),
    ],
)
def test_the_nodes_of_a_job_are_counted_by_their_names(body: str, gpus: int | None) -> None:
    body = f"{body}\ntorchrun --nnodes $n --nproc_per_node 8 t.py"
    found = program(run_slurm=script("--nodes=4", "--gpus-per-node=8", body=body))
    assert num_gpus(found) == gpus


def test_the_name_of_a_node_is_not_known() -> None:
    body = "h=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\nsrun python t.py $h"
    (_, word) = program(run_slurm=script("--nodes=2", body=body)).words()
    assert word == "$(...)"


@pytest.mark.parametrize(
    "count",
    [
        "a=( $(scontrol show hostnames $SLURM_JOB_NODELIST) ); n=${#a[@]}",
        "a=$(scontrol show hostnames $SLURM_JOB_NODELIST); b=($a); n=${#b[*]}",
        "a=$(scontrol show hostnames $SLURM_JOB_NODELIST); n=$(echo $a | wc -w)",
        'a=$(scontrol show hostnames "$SLURM_JOB_NODELIST"); n=$(echo "$a" | wc -l)',
        "n=0; for h in $(scontrol show hostnames $SLURM_JOB_NODELIST); do n=$((n + 1)); done",
    ],
)
def test_names_of_nodes_are_counted_though_they_are_not_known(count: str) -> None:
    body = f"{count}\ntorchrun --nnodes $n --nproc_per_node 8 t.py"
    assert num_gpus(program(run_slurm=script("--nodes=4", body=body))) == 32


@pytest.mark.parametrize("value", ["${a[0]}", "${#a}", "${a[0]%%-*}"])
def test_what_a_node_is_called_is_not_known(value: str) -> None:
    text = f"#SBATCH --nodes=4\na=( $(scontrol show hostnames) )\nn={value}\n"
    text = text.replace("hostnames)", "hostnames $SLURM_JOB_NODELIST)")
    found = program(run_sh=f"{text}torchrun --nnodes $n --nproc_per_node 8 t.py\n")
    assert num_gpus(found) is None
