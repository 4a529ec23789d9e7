"""What differs between releases of transformers, TRL and PyTorch: keys, defaults and losses.

Read from the sources of every minor release of transformers from 4.36 to 5.23 (training_args.py,
loss/loss_utils.py, models/) and of TRL from 0.9 to 1.9, for DPO and
GRPO to 1.16 (trainer/sft_config.py,
base_config.py, model_config.py, sft_trainer.py, dpo_config.py, dpo_trainer.py, what its setup.cfg,
setup.py or pyproject.toml demands).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from trainfit.launch.keys import words

Library = Literal["transformers", "trl", "torch", "accelerate"]
Release = tuple[int, ...]

LATEST: Release = (9999,)
"""Stands for the last release whose keys are in the lists."""

OLDEST: Mapping[Library, Release] = {"transformers": (4, 36), "trl": (0, 9)}
"""The first releases that are known. Before 4.36 no model has scaled_dot_product_attention; before
0.9 there is no SFTConfig."""


class LibraryChange(NamedTuple):
    """Something that a library does from a release on."""

    library: Library
    since: Release


LOSS_WIDENS_LOGITS = LibraryChange("transformers", (4, 46))
"""ForCausalLMLoss makes logits fp32 while the model still holds them as they were; before, the
models do so in their place (modeling_llama.py: logits = logits.float())."""
LOSS_SHIFTS_LABELS = LibraryChange("transformers", (4, 49))
"""Labels are padded and shifted; before, logits[..., :-1, :].contiguous() copied the logits."""
EMBEDDING_MOMENTS_IN_FP32 = LibraryChange("transformers", (4, 52))
"""Trainer has bitsandbytes keep the moments of embeddings in fp32 (create_optimizer); before, only
where the class was called Adam8bit, which none of its choices is."""
FUSED_STEP = LibraryChange("transformers", (4, 56))
FUSED_STEP_OF_TORCH = LibraryChange("torch", (2, 8))
"""TrainingArguments' optim is adamw_torch_fused in place of adamw_torch with both of these."""
LOADS_CHECKPOINTS_DTYPE = LibraryChange("transformers", (5, 0))
"""from_pretrained takes the type of the checkpoint; before, fp32."""
STACKS_EXPERTS = LibraryChange("transformers", (5, 0))
"""Experts are parameters that stack them all, no linears: bitsandbytes does not quantise them
(integrations/bitsandbytes.py: replace_with_bnb_linear)."""
NOT_REENTRANT = LibraryChange("transformers", (5, 0))
"""gradient_checkpointing_enable's use_reentrant is False unless given; before, True."""
TRL_IS_NOT_REENTRANT = LibraryChange("trl", (0, 27))
"""So it is of TRL's trainers (trainer/base_trainer.py and sft_trainer.py: setdefault)."""
FSDP2_BY_DEFAULT = LibraryChange("transformers", (5, 10))
"""fsdp_config's version is 2 unless given (training_args.py, _process_fsdp_args)."""
ASKS_FOR_A_GPU = LibraryChange("transformers", (4, 48))
"""To import Trainer asks whether there is a GPU, where flash-attn is installed (modeling_utils.py
imports integrations/flash_attention.py, and that is_flash_attn_2_available), and so starts CUDA
before PyTorch has set CUDA_MODULE_LOADING (torch/cuda/__init__.py, _lazy_init); before, what is
imported first asks nothing."""
LOADS_LAZILY = LibraryChange("torch", (2, 5))
"""It comes with CUDA 12.4, which loads kernels as they run; earlier releases with 12.1 at most,
which, from 12.2 on the default, do so where CUDA_MODULE_LOADING is LAZY."""
HOLDS_BACK_FSDP2 = LibraryChange("accelerate", (1, 11))
"""no_sync reaches modules of FSDP2, which reduce gradients with the last micro-batch only; before,
it looked for a method that they do not have, and they reduced them after each (accelerator.py)."""
MIXES_BF16 = LibraryChange("trl", (0, 19))
"""SFTConfig's bf16 is on unless fp16 is."""
CHECKPOINTS = LibraryChange("trl", (0, 22))
"""SFTConfig's gradient_checkpointing is on."""
NARROW_ADAPTERS = LibraryChange("trl", (0, 22))
"""Adapters over quantised weights are bf16."""
LEAVES_QUANTISED_BASE = LibraryChange("trl", (0, 26))
"""prepare_model_for_kbit_training, which widens what is not quantised, is not called any more."""
LOADS_FP32 = LibraryChange("trl", (0, 27))
"""ModelConfig's dtype is float32 whatever from_pretrained's default is."""
CHUNKS_LOSS = LibraryChange("trl", (1, 7))
"""SFTConfig's loss_type is chunked_nll, without Liger's kernels."""

HAS_NO_REFERENCE = LibraryChange("trl", (0, 19))
"""GRPOConfig's beta is 0 unless given, and no reference model is loaded; before, 0.04."""
CUTS_NO_PROMPTS = LibraryChange("trl", (0, 26))
"""GRPOConfig's max_prompt_length is None unless given; before, 512."""
ENGINE_ON_THE_CARDS = LibraryChange("trl", (1, 0))
"""GRPOConfig's vllm_mode is colocate unless given; before, a server on other cards."""

LETS_GO_OF_LOGITS = LibraryChange("trl", (0, 12))
"""DPO's concatenated_forward returns no logits, and computes no cross entropy that is not asked
for."""
BY_SAMPLE = LibraryChange("trl", (0, 15))
"""selective_log_softmax takes one sample after the other."""
RETURNS_HIDDEN_STATES = LibraryChange("trl", (0, 19))
"""DPO's models are called with output_hidden_states."""
COPIES_LOGITS = LibraryChange("trl", (0, 29))
"""DPO was written anew: logits without the last token's are copied, and held to the end."""
VIEWS_LOGITS = LibraryChange("trl", (1, 6))
"""They are copied no more."""
TILES_LOGITS = LibraryChange("trl", (1, 15))
"""DPO's and GRPO's head and log-probabilities are one function (add_fused_lm_head)."""

TELLS_ENTROPY = LibraryChange("trl", (0, 20))
"""GRPO computes the entropy of what was generated, of one sample at a time."""
ENTROPY_OF_TOKENS = LibraryChange("trl", (0, 23))
"""It does so of 128 tokens at a time (utils.py: entropy_from_logits)."""
DIVIDES_LOGITS_IN_PLACE = LibraryChange("trl", (1, 0))
"""GRPO's logits are divided by the temperature in place; before, as a copy."""
DIVIDES_LOGITS_APART = LibraryChange("trl", (1, 10))
"""They are copied again, beside what the model returned."""
ONE_KERNEL_OVER_LOGITS = LibraryChange("trl", (1, 14))
"""One kernel divides them, and makes log-probabilities and entropy (kernels/logprob_entropy.py)."""

LETS_GO_OF_MISMATCHED = LibraryChange("trl", (0, 17))
"""KTO's mismatched samples have a function of their own (_compute_kl_logps), and their logits go
when it ends."""
HOLDS_KTOS_OUTPUTS = LibraryChange("trl", (1, 6))
"""KTO's loss and forward are one function, which holds what models return, and a copy of it."""
COPIES_NO_KTO_LOGITS = LibraryChange("trl", (1, 7))
LOADS_NO_KTO_REFERENCE = LibraryChange("trl", (1, 8))
"""Its script kto.py loads no reference model beside adapters."""
TELLS_KTOS_ENTROPY = LibraryChange("trl", (1, 8))
COPIES_LABELLED_LATE = LibraryChange("trl", (1, 9))
"""KTO copies the logits of desirable and of undesirable samples when the reference has run."""

TRANSFORMERS_5: Release = (5, 0)
TRL_FOR_5: Release = (0, 27)
"""Earlier releases of TRL came before transformers 5.0 (January 2026)."""

REQUIRED: Mapping[Release, Release] = {
    (0, 9): (4, 31),
    (0, 11): (4, 40),
    (0, 12): (4, 46),
    (0, 18): (4, 50),
    (0, 19): (4, 51),
    (0, 20): (4, 53, 2),
    (0, 21): (4, 55),
    (0, 23): (4, 56, 1),
    (0, 27): (4, 56, 2),
}
"""Releases of TRL, and the transformers that they demand from then on."""


class KeysByRelease(NamedTuple):
    """KeysByRelease that a library has not had in every release: since one, or until before one."""

    library: Library
    since: Mapping[Release, tuple[str, ...]]
    until: Mapping[Release, tuple[str, ...]]

    def has(self, key: str, release: Release) -> bool:
        """Whether a release has this key; any has one that is not listed."""
        early = any(release < since and key in names for since, names in self.since.items())
        return not early and not any(
            release >= until and key in names for until, names in self.until.items()
        )


ARGUMENTS_BY_RELEASE = KeysByRelease(
    "transformers",
    {
        (4, 38): words("dataloader_prefetch_factor"),
        (4, 39): words("optim_target_modules"),
        (4, 40): words("eval_do_concat_batches"),
        (4, 41): words("batch_eval_metrics eval_strategy restore_callback_states_from_checkpoint"),
        (4, 42): words("eval_on_start"),
        (4, 43): words("eval_use_gather_object torch_empty_cache_steps"),
        (4, 45): words("use_liger_kernel"),
        (4, 46): words("include_for_metrics"),
        (4, 47): words("average_tokens_across_devices"),
        (4, 53): words("hub_revision liger_kernel_config"),
        (4, 56): words("parallelism_config"),
        (4, 57): words("project trackio_space_id"),
        (5, 0): words("enable_jit_checkpoint use_cache"),
        (5, 2): words("train_sampling_strategy"),
        (5, 6): words("ddp_static_graph trackio_bucket_id trackio_static_space_id"),
        (5, 15): words("dataloader_in_order dataloader_multiprocessing_context"),
        (5, 23): words("activation_checkpointing activation_checkpointing_kwargs"),
    },
    {
        (4, 51): words("dispatch_batches evaluation_strategy split_batches"),
        (4, 57): words("use_ipex"),
        (5, 0): words("""
adafactor fp16_backend fp16_opt_level fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap
half_precision_backend include_inputs_for_metrics include_tokens_per_second jit_mode_eval
mp_parameters no_cuda overwrite_output_dir past_index per_gpu_eval_batch_size
per_gpu_train_batch_size push_to_hub_model_id push_to_hub_organization push_to_hub_token ray_scope
save_safetensors torchdynamo tpu_metrics_debug tpu_num_cores use_legacy_prediction_loop
use_mps_device
"""),
        (5, 2): words("group_by_length"),
        (5, 15): words("logging_dir warmup_ratio"),
    },
)
"""Of TrainingArguments."""

SFT_BY_RELEASE = KeysByRelease(
    "trl",
    {
        (0, 17): words("completion_only_loss"),
        (0, 19): words("assistant_only_loss chat_template_path packing_strategy"),
        (0, 23): words("loss_type"),
        (0, 26): words("shuffle_dataset"),
    },
    {
        (0, 18): words("chars_per_token dataset_batch_size num_of_sequences use_liger"),
        (0, 20): words("max_seq_length"),
    },
)
"""Of SFTConfig, those that scripts beside TRL do not have under the same name."""

DPO_BY_RELEASE = KeysByRelease(
    "trl",
    {
        (0, 11): words("max_completion_length"),
        (0, 12): words("use_weighting"),
        (0, 13): words("discopop_tau precompute_ref_batch_size use_num_logits_to_keep"),
        (0, 14): words("padding_free"),
        (0, 15): words("use_logits_to_keep"),
        (0, 18): words("ld_alpha"),
        (0, 19): words("use_liger_loss"),
        (0, 20): words("loss_weights"),
    },
    {
        (0, 14): words("max_target_length"),
        (0, 15): words("is_encoder_decoder"),
        (0, 17): words("use_num_logits_to_keep"),
        (0, 28): words("use_liger_loss"),
        (0, 29): words("""
base_model_attribute_name force_use_ref_model generate_during_eval label_pad_token_id
max_completion_length max_prompt_length model_adapter_name ref_adapter_name ref_model_init_kwargs
reference_free rpo_alpha use_logits_to_keep
"""),
    },
)
"""Of DPOConfig, those that scripts beside TRL do not have under the same name."""

GRPO_BY_RELEASE = KeysByRelease(
    "trl",
    {
        (0, 16): words("""
cache_implementation epsilon epsilon_high max_completion_length min_p num_generations num_iterations
repetition_penalty reward_funcs reward_weights scale_rewards top_k top_p use_vllm
vllm_guided_decoding_regex vllm_server_host vllm_server_port vllm_server_timeout
"""),
        (0, 17): words("mask_truncated_completions shuffle_dataset use_liger_loss"),
        (0, 18): words("""
delta generation_batch_size steps_per_generation vllm_mode vllm_server_base_url
vllm_tensor_parallel_size
"""),
        (0, 19): words("generation_kwargs"),
        (0, 20): words("importance_sampling_level top_entropy_quantile use_transformers_paged"),
        (0, 21): words("vllm_model_impl"),
        (0, 23): words("""
vllm_enable_sleep_mode vllm_importance_sampling_cap vllm_importance_sampling_correction
"""),
        (0, 25): words("cast_lm_head_to_fp32 chat_template_kwargs"),
        (0, 26): words("num_generations_eval use_bias_correction_kl vllm_max_model_length"),
        (0, 27): words("max_tool_calling_iterations vllm_structured_outputs_regex"),
    },
    {
        (0, 18): words("vllm_device vllm_dtype vllm_enable_prefix_caching vllm_max_model_len"),
        (0, 28): words("max_prompt_length use_liger_loss vllm_guided_decoding_regex"),
    },
)
"""Of GRPOConfig, from 0.16 on: before, a batch was of prompts."""

MODELS_SINCE: Mapping[str, Release] = {
    model_type: release
    for release, types in {
        (4, 37): "qwen2",
        (4, 38): "gemma stablelm",
        (4, 39): "cohere mamba starcoder2",
        (4, 40): "dbrx jamba olmo qwen2_moe recurrent_gemma",
        (4, 41): "phi3",
        (4, 42): "gemma2",
        (4, 44): "nemotron",
        (4, 45): "granite granitemoe mllama olmoe pixtral qwen2_vl",
        (4, 46): "glm phimoe",
        (4, 47): "olmo2",
        (4, 48): "cohere2",
        (4, 49): "qwen2_5_vl zamba2",
        (4, 50): "gemma3 gemma3_text mistral3",
        (4, 51): "deepseek_v3 llama4 llama4_text qwen3 qwen3_moe",
        (4, 52): "glm4 granitemoehybrid",
        (4, 53): "arcee falcon_h1 gemma3n_text minimax smollm3",
        (4, 54): "deepseek_v2 ernie4_5 ernie4_5_moe exaone4 glm4_moe lfm2",
        (4, 55): "gpt_oss",
        (4, 56): "apertus hunyuan_v1_moe seed_oss",
        (4, 57): "flex_olmo lfm2_vl olmo3 qwen3_next qwen3_vl qwen3_vl_moe",
        (5, 0): "glm4_moe_lite minimax_m2 ministral3",
        (5, 2): "glm_moe_dsa qwen3_5 qwen3_5_moe",
        (5, 3): "nemotron_h",
        (5, 5): "gemma4 gemma4_text",
        (5, 8): "deepseek_v4",
        (5, 11): "deepseek_v32",
        (5, 13): "kimi_k25 mimo_v2_flash minicpm3",
        (5, 16): "step3p7",
        (5, 17): "kimi_linear",
        (5, 23): "internlm3",
    }.items()
    for model_type in types.split()
}
"""The release in which a model came, of those after the first that is known (models/auto)."""

SDPA_SINCE: Mapping[str, LibraryChange] = {
    model_type: LibraryChange("transformers", release)
    for release, types in {
        (4, 37): "mistral mixtral",
        (4, 39): "phi stablelm",
        (4, 42): "gpt2 gpt_neox",
        (4, 45): "phi3",
        (4, 46): "opt",
        (4, 53): "persimmon",
    }.items()
    for model_type in types.split()
}
"""Models whose attention was eager at first, and became scaled_dot_product_attention by default
(_supports_sdpa)."""
