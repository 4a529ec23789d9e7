"""What wraps a program, taken off a command line."""

from __future__ import annotations

import pytest

from tests.launch.commands.programs import command_line, launch, num_gpus, program
from trainfit.launch.commands.unwrap import programs_of
from trainfit.launch.errors import LaunchError

COMMANDS = {
    "torchrun --nproc_per_node 8 a/pretrain_gpt.py --x 1": ("pretrain_gpt.py --x 1", 8),
    "torchrun --nnodes=2 --nproc-per-node=4 -m pkg.train --y": ("pkg.train --y", 8),
    "torchrun --nnodes 2:2 --nproc-per-node 4 t.py": ("t.py", 8),
    "torchrun --standalone --no-python ./train --z": ("train --z", 1),
    "composer -n 4 t.py x.yaml a=1": ("t.py x.yaml a=1", 4),
    "composer --verbose --world_size 16 --node_rank 0 t.py x.yaml": ("t.py x.yaml", 16),
    "WORLD_SIZE=16 LOCAL_WORLD_SIZE=8 composer t.py x.yaml": ("t.py x.yaml", 16),
    "CUDA_VISIBLE_DEVICES=0,1 composer -m pkg.train --y": ("pkg.train --y", 2),
    "composer t.py x.yaml": ("t.py x.yaml", None),
    "torchrun --nproc_per 2 t.py --nproc_per_node 3": ("t.py --nproc_per_node 3", 2),
    "python3 -u -m torch.distributed.run --nproc_per_node 2 t.py": ("t.py", 2),
    "python -m torch.distributed.launch --use_env --nproc_per_node=2 t.py": ("t.py", 2),
    "CUDA_VISIBLE_DEVICES=0,1,2 torchrun --nproc_per_node gpu t.py": ("t.py", 3),
    "PET_NPROC_PER_NODE=4 PET_NNODES=2 torchrun t.py": ("t.py", 8),
    "accelerate launch --num_processes 8 t.py --lr 1": ("t.py --lr 1", 8),
    "accelerate launch --multi_gpu -m pkg.train": ("pkg.train", None),
    "python -m accelerate.commands.launch --num_processes=2 t.py": ("t.py", 2),
    "deepspeed --num_gpus=4 --num_nodes 2 t.py --deepspeed ds.json": (
        "t.py --deepspeed ds.json",
        8,
    ),
    "deepspeed --include localhost:1,3 t.py": ("t.py", 2),
    "deepspeed -i a:0,1@b:0,1 --module pkg.train": ("pkg.train", 4),
    "deepspeed t.py": ("t.py", None),
    "srun -N 2 --ntasks-per-node=8 python t.py": ("t.py", 16),
    "srun -n16 bash -c 'python t.py --a'": ("t.py --a", 16),
    "srun -N2 torchrun --nnodes 2 --nproc_per_node 8 t.py": ("t.py", 16),
    "mpirun -np 8 -x A=1 -mca btl tcp python -u t.py": ("t.py", 8),
    "env A=1 nohup numactl --membind=0 python t.py": ("t.py", None),
    "sudo -E timeout -k 5 3h nice -n 5 torchrun t.py": ("t.py", 1),
    "docker run --gpus all --rm -v /a:/b img:1 torchrun --nproc_per_node 2 t.py": ("t.py", 2),
    "apptainer exec --nv -B /a:/b x.sif bash -lc 'cd /b && torchrun t.py'": ("t.py", 1),
    "conda run -n e --no-capture-output uv run --extra gpu t.py --b": ("t.py --b", None),
    "ray job submit --no-wait -- python3 -m verl.trainer.main_ppo a.b=1": (
        "verl.trainer.main_ppo a.b=1",
        None,
    ),
    "axolotl train x.yaml --launcher torchrun -- --nproc_per_node=8": (
        "axolotl train x.yaml --launcher torchrun",
        8,
    ),
    "axolotl train x.yaml -- --num_processes 4": ("axolotl train x.yaml", 4),
    "python mason.py --cluster a b --num_nodes 2 --gpus 8 --preemptible -- accelerate launch "
    "--num_processes 8 t.py --lr 1": ("t.py --lr 1", 16),
    "python mason.py --cluster a --gpus 8 -- source setup.sh '&&' torchrun --nproc_per_node gpu "
    "t.py": ("t.py", 8),
    "python mason.py --cluster a --gpus 8 -- source setup.sh '&&python' t.py --a": (
        "t.py --a",
        None,
    ),
    "llamafactory-cli train x.yaml": ("llamafactory-cli train x.yaml", None),
    "--num-layers 3 --bf16": ("--num-layers 3 --bf16", None),
    "run_train.sh --a": ("run_train.sh --a", None),
    "bash run_train.sh --a": ("run_train.sh --a", None),
}


@pytest.mark.parametrize("argv", COMMANDS)
def test_a_command_line_is_taken_apart(argv: str) -> None:
    found = program(argv)
    assert (command_line(found), num_gpus(found)) == COMMANDS[argv]
    assert found.unsupported == ()


def test_words_are_taken_as_they_are() -> None:
    found = program(["torchrun", "t.py", "--a", "b $C 'd"])
    assert [word.text for word in found.arguments] == ["--a", "b $C 'd"]


def test_every_option_of_a_launcher_has_its_place() -> None:
    found = program("torchrun --nproc_per_node 8 --rdzv_id 7 --tee=3 --nodez 2 t.py")
    assert [(each.key, each.value) for each in found.num_gpus] == [("--nproc_per_node", 8)]
    assert [(each.key, each.value) for each in found.irrelevant] == [
        ("--rdzv_id", "7"),
        ("--tee", "3"),
    ]
    assert [(each.key, each.value, why) for each, why in found.unsupported] == [
        ("--nodez", "2", "torchrun has no such option")
    ]


def test_options_of_accelerate_are_for_its_format() -> None:
    found = program("accelerate launch --config_file a.yaml --use_fsdp --num-processes 2 t.py")
    settings = {name: each.value for name, each in found.launcher_settings.items()}
    assert settings == {"config_file": "a.yaml", "use_fsdp": True, "num_processes": "2"}
    assert found.irrelevant == ()


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        ("torchrun --nproc_per_node gpu t.py", "the number of GPUs of a machine"),
        ("torchrun --nproc_per_node $N t.py", "N is not set; give it in env"),
        ("torchrun --nnodes 1:4 t.py", "from 1 to 4 nodes"),
        ("torchrun --nproc_per_node none t.py", "it is no number"),
        ("deepspeed --include localhost t.py", "a host without its slots"),
        ("accelerate launch --num_processes $(nproc) t.py", "$(nproc) is not run"),
    ],
)
def test_a_number_of_gpus_that_is_not_told_says_what_to_give(argv: str, why: str) -> None:
    (unknown,) = [each for each in program(argv).num_gpus if each.unknown is not None]
    assert why in str(unknown.unknown)


def test_unknown_options_are_not_taken_for_the_program() -> None:
    found = program("torchrun $ARGS --nproc_per_node 2 $DIR/t.py --a")
    assert command_line(found) == "t.py --a"
    assert [each.key for each, _ in found.unsupported] == ["${ARGS}"]
    found = program("torchrun $CMD --magic 2 t.py")
    assert command_line(found) == "${CMD} --magic 2 t.py"
    found = program("torchrun --nproc_per_node 2 $ARGS $DIR/t.py --a")
    assert command_line(found) == "t.py --a"
    assert [each.key for each, _ in found.unsupported] == ["${ARGS}"]


def test_variables_reach_the_program() -> None:
    found = program("A=1 env B=2 docker run -e C=3 -e D img torchrun t.py", env={"E": "4"})
    values = {name: each.value for name, each in found.environment.items()}
    assert values == {"E": "4", "A": "1", "B": "2", "C": "3"}


def test_a_script_that_was_sent_is_followed() -> None:
    train = 'source env.sh\ntorchrun --nproc_per_node $N t.py "$@"\n'
    env = "N=${N:-4}"
    assert num_gpus(program("bash -x train.sh --a", train_sh=train, env_sh=env)) == 4
    found = program("./train.sh --a b", train_sh=train, env_sh=env)
    assert command_line(found) == "t.py --a b"
    assert num_gpus(program(env={"N": "2"}, train_sh=train, env_sh=env)) == 2
    found = program("bash scripts/train.sh", train_sh=train, env_sh=env)
    assert command_line(found) == "t.py"
    assert program(train_sh=train, env_sh=env).num_gpus[0].file == "train.sh"


def test_a_script_may_call_another() -> None:
    outer = "export N=8\nbash inner.sh 3\n"
    found = program(outer_sh=outer, inner_sh="torchrun --nproc_per_node $N t.py $1")
    assert (command_line(found), num_gpus(found)) == ("t.py 3", 8)


def test_arguments_alone_are_those_of_the_one_script() -> None:
    script = "torchrun --nproc_per_node ${1:-2} t.py ${2:-x} $#"
    assert command_line(program(["4", "y"], run_sh=script)) == "t.py y 2"
    assert command_line(program([], run_sh=script)) == "t.py x 0"
    assert program(run_sh=script).arguments[1].unknown is not None


def test_scripts_that_call_each_other_without_end_are_refused() -> None:
    with pytest.raises(LaunchError, match="more than 20000 steps"):
        programs_of(launch(a_sh="bash b.sh; bash b.sh", b_sh="bash a.sh; bash a.sh"))


def test_why_nothing_may_be_found_is_noted() -> None:
    found = programs_of(launch(a_sh='if [ -z "$X" ]; then exit 1; fi\ntorchrun t.py'))
    assert [(each.file, each.line) for each in found.notes] == [("a.sh", 1)]
    found = programs_of(launch(a_sh="bash other.sh"))
    assert [each.message for each in found.notes] == [
        "a.sh:1: other.sh is called here and was not sent"
    ]
    found = programs_of(launch(a_sh="$LAUNCH t.py"))
    assert [each.message for each in found.notes] == [
        "a.sh:1: what ${LAUNCH} starts is not known: LAUNCH is not set; give it in env"
    ]


def test_files_alone_are_one_program_without_a_name() -> None:
    found = program(ds_json="{}")
    assert found.name is None
    assert list(found.files) == ["ds.json"]


def test_options_that_a_comment_cuts_off_are_named() -> None:
    """As JJH12234/ScaleBench starts LLaMA-Factory: bash takes what follows for a command."""
    text = (
        "llamafactory-cli train --stage sft \\\n"
        "    --model_name_or_path Qwen/Qwen2.5-7B \\\n"
        "    #--model_name_or_path Qwen/Qwen2.5-14B \\\n"
        "    --per_device_train_batch_size 4 --cutoff_len 2048\n"
    )
    with pytest.raises(LaunchError, match=r"run.sh:4: --per_device_train_batch_size begins a line"):
        programs_of(launch(run_sh=text))
