"""Words that nearly every launch uses, recognised where no reader knows the program.

What they say is a draft to confirm: whose defaults hold, and what else the program does, is not
known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainfit.documents.document import FileError, parse_documents
from trainfit.launch.commands.unwrap import programs_of
from trainfit.launch.drafted import DraftedJob, Said
from trainfit.launch.errors import LaunchError
from trainfit.launch.fields import as_field
from trainfit.launch.keys import words
from trainfit.launch.overriding import merged
from trainfit.launch.program import TrainingProgram
from trainfit.launch.scripts import is_script
from trainfit.launch.settings import Setting, settings_of
from trainfit.launch.transformers.command_line import flags_of
from trainfit.specs.launch import Launch

WORDS: Mapping[str, Sequence[str]] = {
    "/model/hf_id": words(
        "model_name_or_path model_name base_model pretrained_model model_id hf_model model_path "
        "pretrain model"
    ),
    "/parallelism/num_gpus": words("num_gpus world_size num_processes n_gpus devices"),
    "/parallelism/tp": words(
        "tensor_model_parallel_size tensor_parallel_size tensor_parallel_degree tp_size tp "
        "model_parallel_size"
    ),
    "/parallelism/pp": words(
        "pipeline_model_parallel_size pipeline_parallel_size pipeline_parallel_degree pp_size pp "
        "pipe_parallel_size"
    ),
    "/parallelism/cp": words("context_parallel_size context_parallel_degree cp_size cp"),
    "/parallelism/ep": words("expert_model_parallel_size expert_parallel_size ep_size ep"),
    "/training/micro_batch_size": words(
        "micro_batch_size per_device_train_batch_size train_micro_batch_size_per_gpu "
        "micro_train_batch_size device_train_microbatch_size local_batch_size batch_size_training "
        "train_batch_size_per_gpu per_gpu_train_batch_size"
    ),
    "/training/num_microbatches": words(
        "gradient_accumulation_steps grad_accum_steps accumulate_grad_batches"
    ),
    "/training/seq_length": words(
        "seq_length seq_len max_seq_length max_seq_len max_length sequence_length sequence_len "
        "cutoff_len context_length model_max_length block_size max_len"
    ),
    "/training/peft/r": words("lora_r lora_rank lora_dim"),
}
"""Names of a field of a job, the one that says most first."""


def drafted(launch: Launch) -> DraftedJob:
    """What a launch says in words that everyone uses. Raises LaunchError of a script that is not
    followed.
    """
    programs = [each for each in programs_of(launch).programs if each.name is not None]
    settings = [*_of_files(launch), *(each for one in programs for each in _of_program(one))]
    found: list[Said] = []
    job: dict[str, Any] = {}
    for pointer, names in WORDS.items():
        given = [each for name in names for each in settings if _last(each.key) == name]
        values = [_value(pointer, each) for each in given]
        known = {str(value) for value in values if value is not None}
        clear = len(known) == 1 and None not in values
        found += [
            Said(each.file, each.line, each.key, each.value, pointer, clear) for each in given
        ]
        if clear:
            job = merged(job, _patch(pointer, values[0]))
    if "peft" in job.get("training", {}):
        job["training"]["peft"] = {"method": "lora", **job["training"]["peft"]}
    return DraftedJob([str(each.name) for each in programs], job, found)


def _of_files(launch: Launch) -> Iterator[Setting]:
    for file in launch.files:
        if is_script(file.path, file.content):
            continue
        suffix = file.path[file.path.rfind(".") :]
        try:
            documents = parse_documents(suffix, file.content)
        except (FileError, LaunchError):
            continue
        for document in documents:
            yield from settings_of(document, file.path).values()


def _of_program(program: TrainingProgram) -> Iterator[Setting]:
    """Options with one value, and key=value; with them a launcher's own."""
    flags, others = flags_of(program.arguments)
    for flag in flags:
        if len(flag.values) == 1:
            yield Setting.of(flag.name, flag.flag, flag.values[0].text)
    for word in others:
        key, equals, value = word.text.lstrip("+").partition("=")
        if equals:
            yield Setting.of(key, word, value)


def _last(key: str) -> str:
    return key.rpartition(".")[2].lstrip("-").replace("-", "_").lower()


def _value(pointer: str, setting: Setting) -> Any:
    """The value as the field takes it; None where it is not known, or is none of this field."""
    if setting.unknown is not None or setting.value in (None, "", "auto"):
        return None
    value = setting.value if not isinstance(setting.value, list) else None
    try:
        return as_field(pointer, str(value)) if value is not None else None
    except ValueError:
        return None


def _patch(pointer: str, value: Any) -> dict[str, Any]:
    patch: Any = value
    for name in reversed(pointer.strip("/").split("/")):
        patch = {name: patch}
    return dict(patch)
