"""What examples leave to be filled in, or to whoever runs them."""

from __future__ import annotations

import pytest

from tests.launch.commands.programs import command_line, program
from tests.launch.launches import launch_of
from trainfit.launch.commands.unwrap import programs_of
from trainfit.launch.errors import LaunchError
from trainfit.launch.read import read_launch

TRAINS = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 "
    "--num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 --bf16 "
    "--vocab-size 32000 --micro-batch-size"
)


@pytest.mark.parametrize(
    "script",
    [
        "python t.py --port=<your_random_port> --data <path to data> --b 2",
        "CKPT=<Specify path>\nDATA=<path>/data\npython t.py --load $CKPT --data $DATA --b 2",
        'ARGS=" --load <PATH TO CHECKPOINTS> --b 2 "\nsrun sh -c "python t.py $ARGS"',
    ],
)
def test_a_placeholder_is_one_word_that_is_not_known(script: str) -> None:
    found = program(run_sh=script)
    assert [word.text for word in found.arguments][-2:] == ["--b", "2"]
    assert any(word.unknown is not None for word in found.arguments)


@pytest.mark.parametrize(
    "script",
    ["python t.py --b 2 <in >out", "python t.py --b 2 <in>out", "python t.py <in >out --b 2"],
)
def test_what_bash_redirects_stays_so(script: str) -> None:
    assert command_line(program(run_sh=script)).endswith("--b 2")


def test_a_variable_that_is_known_in_part_is_split_by_another_shell() -> None:
    script = (
        'export HOST=$(hostname)\nexport RUN="torchrun --nproc_per_node 4 --master_addr $HOST"\n'
        "export CMD='t.py --b 2'\nsrun bash -c '$RUN $CMD'"
    )
    assert command_line(program(run_sh=script)) == "t.py --b 2"


def test_a_script_of_slurm_runs_within_a_job() -> None:
    script = (
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=8 --exclude=node7\n"
        'if [ -z $SLURM_JOB_ID ]; then sbatch "$0"; exit; fi\n'
        "cat > ds.$SLURM_JOB_ID.json <<< '{}'\nsrun python t.py --b 2"
    )
    found = program(run_slurm=script)
    assert command_line(found) == "t.py --b 2"
    assert not found.unsupported


def test_a_script_runs_without_arguments_that_were_not_sent() -> None:
    script = f'BATCH=2\nif [ -n "$1" ]; then BATCH=$1; fi\n{TRAINS} $BATCH'
    reading = read_launch(launch_of({"run.sh": script}))
    assert reading.job["training"]["micro_batch_size"] == 2
    told = reading.launch.account.defaulted[0]
    assert (told.pointer, told.value) == ("/argv", [])
    given = read_launch(launch_of({"run.sh": script}, ["4"]))
    assert given.job["training"]["micro_batch_size"] == 4


def test_arguments_that_a_script_needs_are_asked_for() -> None:
    with pytest.raises(LaunchError, match="give the arguments of the script in argv"):
        read_launch(launch_of({"run.sh": f"{TRAINS} $1"}))


@pytest.mark.parametrize(
    "counts",
    [
        "python -c 'import torch; print(torch.cuda.device_count())'",
        "nvidia-smi -L | wc -l",
        "nvidia-smi --query-gpu=name --format=csv,noheader | wc -l",
    ],
)
def test_gpus_of_a_node_are_what_the_launch_says(counts: str) -> None:
    script = f"GPUS=$({counts})\npython t.py --steps $((1024 / $GPUS / 4))"
    known = program(run_sh=script, env={"CUDA_VISIBLE_DEVICES": "0,1,2,3"})
    assert command_line(known) == "t.py --steps 64"
    left = program(run_sh=script)
    assert left.arguments[-1].unknown is not None


@pytest.mark.parametrize("option", ["-F','", "-F ,", "-F,", "-F';'"])
def test_fields_that_awk_counts_are_known(option: str) -> None:
    script = f"GPUS=0,1,2,3\nN=$(echo $GPUS | awk {option} '{{print NF}}')\npython t.py --gpus $N"
    counted = 1 if ";" in option else 4
    assert command_line(program(run_sh=script)) == f"t.py --gpus {counted}"


def test_what_else_awk_prints_is_not_known() -> None:
    script = "N=$(echo 0,1 | awk -F, '{print $1 $NF}')\npython t.py --gpus $N"
    assert program(run_sh=script).arguments[-1].unknown is not None


def test_a_file_that_was_sent_is_there_until_it_is_moved() -> None:
    script = (
        "{}\nB=1\nif [[ -f conf/a.yaml ]] && grep -q '^batch:' conf/a.yaml; then\n"
        "B=$(grep batch: conf/a.yaml | awk '{{print $2}}')\nfi\npython t.py --batch $B"
    )
    found = {"run.sh": script.format(""), "conf/a.yaml": "name: b\nbatch: 8\n"}
    (known,) = programs_of(launch_of(found)).programs
    assert command_line(known) == "t.py --batch 8"
    moved = found | {"run.sh": script.format("rm -f conf/a.yaml")}
    assert programs_of(launch_of(moved)).programs[-1].arguments[-1].unknown is not None


GUARD = 'IMAGE=""\nif [ -z "$IMAGE" ]; then echo "set IMAGE"; exit 1; fi\n'


def test_what_stands_behind_a_guard_is_what_would_train() -> None:
    reading = read_launch(launch_of({"run.sh": f"{GUARD}{TRAINS} 2"}))
    assert reading.job["training"]["micro_batch_size"] == 2
    ends = [each for each in reading.launch.account.irrelevant if each.key == "exit"]
    assert [(each.file, each.line) for each in ends] == [("run.sh", 2)]


def test_an_exit_that_says_nothing_is_wrong_ends_a_script() -> None:
    with pytest.raises(LaunchError, match="the script may end here"):
        read_launch(launch_of({"run.sh": f"exit 0\n{TRAINS} 2"}))


def test_a_guard_that_is_open_is_no_matter() -> None:
    open_guard = GUARD.replace('""', "x", 1)
    reading = read_launch(launch_of({"run.sh": f"{open_guard}{TRAINS} 2"}))
    assert not [each for each in reading.launch.account.irrelevant if each.key == "exit"]


def test_several_programs_behind_a_guard_are_told_of() -> None:
    with pytest.raises(LaunchError, match="starts more than one program that trains"):
        read_launch(launch_of({"run.sh": f"{GUARD}{TRAINS} 2\n{TRAINS} 4"}))


def test_a_loop_that_only_its_guard_ends_is_left() -> None:
    script = f"while [ $# -gt 0 ]; do case $1 in *) exit 1;; esac; done\n{TRAINS} 2"
    reading = read_launch(launch_of({"run.sh": script}, ["unknown"]))
    ends = [each.line for each in reading.launch.account.irrelevant if each.key == "exit"]
    assert set(ends) == {1}


def test_such_a_loop_takes_few_steps() -> None:
    options = " ".join(f"--option-{number}) A=$2; shift 2;;" for number in range(8))
    usage = "echo one; echo two; echo three; " * 8
    loop = f"while [ $# -gt 0 ]; do case $1 in {options} *) {usage} exit 1;; esac; done"
    reading = read_launch(launch_of({"run.sh": f"{loop}\n{TRAINS} 2"}, ["unknown"]))
    assert reading.job["training"]["micro_batch_size"] == 2
