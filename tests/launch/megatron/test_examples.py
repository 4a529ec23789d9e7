"""Options that Megatron-LM's own examples use: what each becomes, or why it changes nothing."""

from __future__ import annotations

import pytest

from tests.launch.commands.programs import num_gpus, program
from tests.launch.launches import launch_of
from tests.launch.launches import read as read_script
from tests.launch.megatron.command_lines import SMALL, became, read, unsupported

FSDP = f"{SMALL} --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params"


@pytest.mark.parametrize(
    ("words", "fused"),
    [
        ("--swiglu", None),
        ("--swiglu --no-bias-swiglu-fusion", False),
        ("--swiglu --no-bias-gelu-fusion", None),
        ("--quick-geglu", None),
        ("--quick-geglu --no-bias-gelu-fusion", False),
        ("--quick-geglu --disable-bias-linear", False),
        ("--no-bias-gelu-fusion", None),
        ("--disable-bias-linear", None),
    ],
)
def test_a_gate_is_fused_as_its_activation_and_the_bias_say(words: str, fused: bool | None) -> None:
    reading = read(f"{SMALL} {words}")
    assert reading.job["framework"].get("bias_activation_fusion") is fused
    assert not reading.launch.account.unsupported


def test_a_clamp_is_of_the_model() -> None:
    words = f"{SMALL} --quick-geglu --activation-func-clamp-value 7.0"
    assert read(words).job["model"]["spec"]["activation_func_clamp_value"] == 7.0


def test_what_the_builder_of_modelopt_reads_is_irrelevant_without_it() -> None:
    words = f"{SMALL} --enable-gpt-oss --export-force-local-attention --export-te-mcore-model"
    assert not unsupported(read(words))
    assert "--modelopt-enabled" in unsupported(read(f"{words} --modelopt-enabled"))


def test_which_layers_have_a_window_counts_for_the_local_softmax_only() -> None:
    words = f"{SMALL} --window-size 127,0 --window-attn-skip-freq 2"
    assert not unsupported(read(words))
    assert "--window-attn-skip-freq" in unsupported(read(f"{words} --transformer-impl local"))


@pytest.mark.parametrize("asked", ["", "--use-flash-attn", "--attention-backend auto"])
def test_flash_attention_has_no_softmax_with_an_offset(asked: str) -> None:
    reading = read(f"{SMALL} {asked} --softmax-type learnable")
    assert reading.job["training"]["attention"]["backend"] == "fused"
    vanilla = read(f"{SMALL} {asked} --softmax-type vanilla").job["training"]["attention"]
    assert vanilla.get("backend") != "fused"


def test_buffers_of_megatron_fsdp_are_the_frameworks() -> None:
    reading = read(f"{FSDP} --use-nccl-ub --fsdp-double-buffer --fsdp-manual-registration")
    assert reading.job["framework"]["nccl_ub"] is True
    assert became(reading, "--fsdp-double-buffer") == {"/framework/fsdp_double_buffer": True}
    assert not reading.launch.account.unsupported


@pytest.mark.parametrize(
    ("version", "words", "gradients"),
    [
        ("core_v0.18.0", "", "fp32"),
        ("core_v0.19.0", "", "bf16"),
        ("core_v0.19.0", "--accumulate-allreduce-grads-in-fp32", "bf16"),
        ("core_v0.19.0", "--megatron-fsdp-main-grads-dtype fp32", "fp32"),
        ("core_v0.18.0", "--megatron-fsdp-main-grads-dtype bf16", "fp32"),
        ("core_v0.18.0", "--grad-reduce-in-bf16", "bf16"),
        ("core_v0.19.0", "--grad-reduce-in-bf16", "bf16"),
    ],
)
def test_megatron_fsdp_keeps_gradients_in_a_type_of_its_own(
    version: str, words: str, gradients: str
) -> None:
    precision = read(f"{FSDP} {words}", version).job["training"]["precision"]
    preset = precision == "bf16"
    assert ("fp32" if preset else precision["gradients"]) == gradients


def test_a_release_that_is_not_named_may_keep_them_in_either() -> None:
    reading = read(FSDP)
    assert "core_v0.19.0 and later" in (reading.launch.releases or "")
    [other] = reading.launch.variants
    assert "before core_v0.19.0" in other.releases
    assert not read(f"{SMALL} --use-distributed-optimizer").launch.variants


@pytest.mark.parametrize(
    ("sent", "kept", "known"),
    [("auto", "auto", True), ("bf16", "bf16", True), ("bf16", "fp32", False)],
)
def test_gradients_that_are_sent_in_another_type_have_buffers_that_are_not_known(
    sent: str, kept: str, known: bool
) -> None:
    words = f"--megatron-fsdp-grad-comm-dtype {sent} --megatron-fsdp-main-grads-dtype {kept}"
    assert ("--megatron-fsdp-grad-comm-dtype" in unsupported(read(f"{FSDP} {words}"))) != known


def test_hybrid_ep_is_a_dispatcher() -> None:
    words = "--num-experts 8 --moe-token-dispatcher-type flex --moe-flex-dispatcher-backend"
    moe = read(f"{SMALL} {words} hybridep").job["training"]["moe"]
    assert (moe["token_dispatcher_type"], moe["flex_dispatcher_backend"]) == ("flex", "hybridep")
    assert "--moe-flex-dispatcher-backend" in unsupported(read(f"{SMALL} {words} ncclep"))


def test_deep_ep_is_a_dispatcher() -> None:
    words = "--num-experts 64 --moe-router-topk 8 --expert-model-parallel-size 16"
    told = "--moe-token-dispatcher-type flex --moe-deepep-num-sms 24"
    found = read(f"{SMALL} {words} {told}", WORLD_SIZE="16")
    moe = found.job["training"]["moe"]
    assert (moe["token_dispatcher_type"], moe["deepep_num_sms"]) == ("flex", 24)
    assert not found.launch.account.bounded


@pytest.mark.parametrize("quoted", ["[0]*1+[1]*3", "'([0]*1+[1]*3)'"])
def test_a_list_of_layers_is_no_pattern_of_file_names(quoted: str) -> None:
    words = f"{SMALL} --num-experts 8 --moe-layer-freq {quoted}"
    found = read_script(launch_of({"run.sh": f"WORLD_SIZE=8 python pretrain_gpt.py {words}"}))
    assert found.field("/model/spec/moe_layer_freq") == [0, 1, 1, 1]


JOB = """#!/bin/bash
NODES=4
sbatch {options}<<EOF
#!/bin/bash
#SBATCH --nodes=$NODES
#SBATCH --ntasks-per-node=8
srun python pretrain_gpt.py \\$SLURM_NNODES
EOF
"""


@pytest.mark.parametrize(("options", "gpus"), [("", 32), ("--nodes=2 ", 16)])
def test_sbatch_reads_a_script_from_standard_input(options: str, gpus: int) -> None:
    found = program(run_sh=JOB.format(options=options))
    assert num_gpus(found) == gpus
    assert [word.text for word in found.arguments] == [str(gpus // 8)]


def test_a_node_count_that_is_not_known_is_told_at_its_line() -> None:
    found = program(run_sh=JOB.format(options="").replace("NODES=4\n", ""))
    assert num_gpus(found) is None
    [why] = {each.unknown for each in found.num_gpus if each.unknown is not None}
    assert "NODES is not set" in why


def test_a_shell_reads_its_commands_from_standard_input() -> None:
    found = program(run_sh="bash <<EOF\ntorchrun --nproc_per_node 4 t.py\nEOF\n")
    assert num_gpus(found) == 4
    found = program(run_sh="echo torchrun --nproc_per_node 2 t.py | bash\n")
    assert num_gpus(found) == 2
