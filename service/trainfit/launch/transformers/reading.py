"""From a program and its files to a job: the three sources are found, read and sorted out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainfit.launch.accelerate.config import MARKS as ACCELERATES
from trainfit.launch.accelerate.config import launched
from trainfit.launch.accelerate.keys import DECIDING as LAUNCHERS
from trainfit.launch.allocator import read_allocator
from trainfit.launch.deepspeed.beside import Beside, config_beside
from trainfit.launch.deepspeed.besides import bound_besides
from trainfit.launch.deepspeed.tensor_parallel import put_tensor_parallel
from trainfit.launch.deepspeed.zero import put_zero
from trainfit.launch.draft import Draft
from trainfit.launch.effects import SHARING, Effect
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.keys import Keys, table_of, words
from trainfit.launch.models import config_of, is_quantised, put_model, settle_names
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting, settings_of
from trainfit.launch.transformers.adapters import PEFT, has_adapters, put_adapters
from trainfit.launch.transformers.changes import (
    ARGUMENTS_BY_RELEASE,
    DPO_BY_RELEASE,
    GRPO_BY_RELEASE,
    SFT_BY_RELEASE,
    Library,
    Release,
)
from trainfit.launch.transformers.command_line import (
    DOCUMENTS,
    arguments_of,
    keys_of,
    named,
    sent,
    settings_in,
)
from trainfit.launch.transformers.engine import (
    TrainerEngine,
    leave_out_unknown_engine,
    put_engine,
    put_num_gpus,
    put_parallel_sizes,
)
from trainfit.launch.transformers.files import leave_out_unnamed, sent_files
from trainfit.launch.transformers.images import put_images
from trainfit.launch.transformers.keys import DECIDING as ARGUMENTS
from trainfit.launch.transformers.keys import RENAMED
from trainfit.launch.transformers.llava import leave_out_projector, put_seeing_model
from trainfit.launch.transformers.loading import put_module_loading
from trainfit.launch.transformers.policy import as_packed
from trainfit.launch.transformers.precision import put_precision
from trainfit.launch.transformers.releases import Releases
from trainfit.launch.transformers.run import Trainer, TrainerRun, need, of_trl
from trainfit.launch.transformers.scripts import ranked, script_of, translated
from trainfit.launch.transformers.source import TrainerSource
from trainfit.launch.transformers.step import RECOMPUTE, put_step
from trainfit.launch.transformers.towers import has_switches, put_towers
from trainfit.launch.transformers.trainers import check_trainer, keys_of_trainer, trainer_of

OF_SCRIPT = "the script"
MODEL = (
    "model_name_or_path",
    "model_id",
    "model_name",
    "model_path",
    "base_model",
    "config_name",
)
"""Arguments that name the model, the one that counts first."""


def read_run(program: TrainingProgram, draft: Draft, known: Mapping[str, Release]) -> None:
    """Read a run into a draft. Raises LaunchError where a file that it names was not sent."""
    run = _of_release(gathered(program, draft, known))
    put_run(run)
    finish(run, keys_of_trainer(run.trainer.kind))


def _of_release(run: TrainerRun) -> TrainerRun:
    """The run without the keys that a release, where one is named, does not have."""
    release = run.releases.named("transformers")
    if release is None:
        return run
    kept = dict(run.arguments.settings)
    for key, name in _spelled(run).items():
        if not ARGUMENTS_BY_RELEASE.has(key, release):
            number = ".".join(map(str, release))
            run.draft.leave_out(kept.pop(name), f"transformers {number} has no such key")
    return replace(run, arguments=TrainerSource(kept, run.draft))


def _spelled(run: TrainerRun) -> dict[str, str]:
    """The arguments as the launch spells them, and the names that they are read by. A key of a file
    that another key names is not one of the arguments.
    """
    return {
        name if "." in name and RENAMED.get(setting.key) != name else setting.key: name
        for name, setting in run.arguments.settings.items()
    }


def settle_releases(run: TrainerRun) -> None:
    """Leave the releases that have all keys of the run and its model. The arguments of a script of
    another kind are its own, and tell nothing.
    """
    if run.trainer.kind == "script":
        return
    own = {"sft": SFT_BY_RELEASE, "dpo": DPO_BY_RELEASE, "grpo": GRPO_BY_RELEASE}.get(
        run.trainer.kind
    )
    lists = (ARGUMENTS_BY_RELEASE, *((own,) if own is not None else ()))
    keys = {key: run.arguments.settings[name] for key, name in _spelled(run).items()}
    config = config_of(run.draft) or {}
    run.releases.settle(lists, keys, str(config.get("model_type", "")))


STEPS = "gradient_accumulation_steps"
"""Of the arguments, which count, and of accelerate's launcher, which scripts copy from these."""

FSDP_CONFIG = "fsdp_config"
FSDP = words("""
activation_checkpointing auto_wrap_policy backward_prefetch cpu_offload cpu_ram_efficient_loading
forward_prefetch limit_all_gathers min_num_params offload_params reshard_after_forward
state_dict_type sync_module_states transformer_layer_cls_to_wrap use_orig_params version xla
xla_fsdp_grad_ckpt xla_fsdp_settings xla_fsdp_v2
""")
"""Keys of TrainingArguments' fsdp_config, which may have fsdp_ before them."""

DEEPSPEED_FILE = "deepspeed_config_file"
"""What accelerate's launcher calls DeepSpeed's config."""

FILES = {"deepspeed", "deepspeed_config", "fsdp_config"}
"""Arguments that may name a file."""

LAUNCHER = "accelerate."
"""What a script tells accelerate itself, within its arguments."""

INLINE = "deepspeed."
"""Keys of DeepSpeed's config within the arguments."""
STAGE = "zero_optimization.stage"
"""What a config has that a script makes: it counts before one that a launcher names."""


def gathered(
    program: TrainingProgram,
    draft: Draft,
    known: Mapping[str, Release],
    renamed: Mapping[str, str] = RENAMED,
    trainer: Trainer | None = None,
    *,
    dotlist: bool = False,
    pinned: bool = False,
    beside: Beside | None = None,
) -> TrainerRun:
    """The sources of a run: those that the command names, else every file by what it is. `renamed`
    are arguments that have another name here, and that name; `dotlist` says that key=value sets
    one over a file. `known` are releases that are named; those that a tool has `pinned` follow
    from no key. `beside` are DeepSpeed's configs that come with a tool.
    """
    arguments = arguments_of(program, draft, dotlist=dotlist)
    script = script_of(program, arguments)
    if script is not None:
        program_itself = Setting(program.name or script.program, None, "argv", None)
        loop = arguments.get(script.loop or "", program_itself)
        arguments = translated(script, arguments, draft)
        trainer = Trainer(script.kind, loop)
        program, beside = ranked(script, program, arguments, draft), script.beside
        arguments = as_packed(arguments, draft) if script.kind in ("policy", "actor") else arguments
    accelerate = launched(program, draft)
    for key in [key for key in arguments if key.startswith(LAUNCHER)]:
        accelerate[key.removeprefix(LAUNCHER)] = arguments.pop(key)
    if (program.name or "").endswith("trl"):
        accelerate |= {key: arguments.pop(key) for key in LAUNCHERS if key in arguments}
    deepspeed: dict[str, Setting] | None = None
    if program.name is None:
        files = sent_files(program)
        arguments |= {**files.arguments, **program.named}
        accelerate |= files.accelerate
        _put_configs(draft, program, files.models, arguments)
        if files.deepspeed and not arguments and not accelerate:
            deepspeed = settings_in(program.files[files.deepspeed[0]])
    for key in FILES & arguments.keys():
        arguments[key] = named(program, arguments[key])
    arguments = _canonical(_with_files(program, arguments), renamed)
    settle_names(arguments, MODEL, draft)
    copied = accelerate.get(STEPS)
    if copied is not None and copied.unknown is not None and STEPS in arguments:
        draft.ignore(accelerate.pop(STEPS))
    inline = {key: arguments.pop(key) for key in [*arguments] if key.startswith(INLINE)}
    named_one = _named_config(arguments, accelerate)
    known_one = config_beside(beside, program, named_one, draft) if beside and named_one else None
    if known_one is None and named_one is not None:
        known_one = settings_in(sent(program, named_one))
    within = {key.removeprefix(INLINE): each for key, each in inline.items()}
    if known_one is not None and STAGE not in within:
        for each in within.values():
            draft.ignore(each)
        within = {}
    deepspeed = within or known_one or deepspeed
    leave_out_unnamed(
        program,
        draft,
        deepspeed=deepspeed is None and program.name is None,
        accelerate=program.launcher == "accelerate" and not accelerate.keys() & ACCELERATES,
    )
    trainer = trainer or trainer_of(program, arguments)
    libraries: tuple[Library, ...] = (
        ("trl", "transformers") if of_trl(trainer) else ("transformers",)
    )
    of_its_own = pinned or trainer.kind == "script" or (script and script.kind == "grpo")
    return TrainerRun(
        draft,
        program,
        trainer,
        TrainerSource(arguments, draft),
        TrainerSource(accelerate, draft),
        None if deepspeed is None else TrainerSource(deepspeed, draft),
        Releases(known, draft.fork, () if of_its_own else libraries),
        known=script is not None,
    )


def put_run(run: TrainerRun) -> None:
    """Set every field of the job that the sources decide."""
    run.draft.default("/framework/name", "transformers", "the format of the launch")
    put_named_model(run)
    settle_releases(run)
    engine, num_gpus = put_layout(run)
    adapters = has_adapters(run)
    put_step(run, engine, num_gpus)
    put_images(run)
    put_precision(run, engine, adapters=adapters)
    put_adapters(run, engine)
    if has_switches(run):
        kind = "lora" if has_adapters(run) else "full"
        put_towers(run, kind, alike=not engine.name.startswith("fsdp"), whose=OF_SCRIPT)
        if kind == "lora":
            leave_out_projector(run)
    if engine.name == "deepspeed":
        put_zero(run)
    check_trainer(run, adapters=has_adapters(run))
    read_allocator(run.program.environment, run.draft)
    put_module_loading(run)


def put_layout(run: TrainerRun, *, filled: bool = False) -> tuple[TrainerEngine, int | None]:
    """Set who shares out what over how many GPUs. The engine, and how many batches differ.

    `filled` says that what no size tells of the ranks is worked out, as axolotl does.
    """
    engine = put_engine(run)
    num_gpus = put_num_gpus(run, engine, filled=filled)
    leave_out_unknown_engine(run, engine, num_gpus)
    put_parallel_sizes(run, engine, num_gpus, filled=filled)
    ranks = put_tensor_parallel(run) if engine.name == "deepspeed" else 1
    if engine.name == "deepspeed":
        ranks *= run.draft.get("/parallelism/cp") or 1
    return engine, None if num_gpus is None else max(1, num_gpus // ranks)


def finish(run: TrainerRun, keys: Keys) -> None:
    """Sort out the keys that nothing was read from. Those of an engine that does not run are
    recognised, and change nothing.
    """
    for name in LAUNCHERS:
        run.accelerate.get(name)
    for name in ARGUMENTS:
        run.arguments.get(name)
    for name in tuple(run.arguments.settings):
        key = name.removeprefix(f"{FSDP_CONFIG}.").removeprefix("fsdp_")
        if name == FSDP_CONFIG or key in FSDP or key.startswith("xla_fsdp_settings."):
            run.arguments.get(name)
    _leave_out_quantised(run)
    run.draft.releases = str(run.releases)
    run.arguments.close(keys)
    run.accelerate.close(table_of("trainfit.launch.accelerate"))
    bound_besides(run)
    if run.deepspeed is not None:
        run.deepspeed.close(table_of("trainfit.launch.deepspeed"))


def _put_configs(
    draft: Draft, program: TrainingProgram, paths: Sequence[str], arguments: Mapping[str, Setting]
) -> None:
    """Set the model as the config.json has it that was sent. Raises LaunchError where several were
    and no argument says which.
    """
    if len(paths) > 1 and not any(name in arguments for name in MODEL):
        message = f"which model is meant, {' or '.join(paths)}? Send one of them"
        raise LaunchError(Complaint(message, paths[-1], 1))
    for path in paths if len(paths) == 1 else ():
        config = keys_of(program.files[path]).value
        draft.put("/model/hf_config", config, Setting("model_type", config["model_type"], path, 1))


def put_named_model(run: TrainerRun) -> None:
    """Set the model."""
    given = [each for name in MODEL if (each := run.arguments.get(name)) is not None]
    revision = run.arguments.get("model_revision")
    if given and not put_seeing_model(run, given[0]):
        put_model(run.draft, run.program, given[0], revision)
    need(run.draft, "/model", "nothing names the model")


QUANTISED = "its name says that the weights are quantised already, which is not modelled"
BELOW = Effect(
    QUANTISED,
    "lowers",
    "gptqmodel's nn_modules/qlinear/torch.py: 8 bits at most; what a layer widens of them goes "
    "with it, as it is made again",
)


def _leave_out_quantised(run: TrainerRun) -> None:
    """Note a model whose weights are quantised by its name, unless that is what the run asks for of
    others. Frozen ones that are whole on each GPU hold less, where no layer keeps them widened.
    """
    named = [each for name in MODEL if (each := run.arguments.get(name)) is not None]
    draft = run.draft
    if not named or draft.overridden("/model/hf_id") or draft.overridden("/model/spec"):
        return
    whole = draft.get(SHARING) != "optim_grads_params" and draft.get(RECOMPUTE) == "full"
    in_4_bits = draft.get(f"{PEFT}/quantization") == "nf4"
    if is_quantised(str(named[0].value), in_4_bits=in_4_bits):
        draft.leave_out(named[0], BELOW if whole and draft.get(f"{PEFT}/method") else QUANTISED)


def _with_files(program: TrainingProgram, arguments: dict[str, Setting]) -> dict[str, Setting]:
    """The arguments with the keys of fsdp_config, where that is a file, below its name."""
    setting = arguments.get("fsdp_config")
    if setting is None or not str(setting.value).endswith(DOCUMENTS):
        return arguments
    file = sent(program, setting)
    keys = settings_of(keys_of(file), file.path)
    return {**arguments, **{f"fsdp_config.{key}": each for key, each in keys.items()}}


def _canonical(arguments: Mapping[str, Setting], renamed: Mapping[str, str]) -> dict[str, Setting]:
    """The arguments by the names that they are read by; a name itself counts before another."""
    found = {name: each for name, each in arguments.items() if name not in renamed}
    for name, setting in arguments.items():
        if name in renamed:
            found.setdefault(renamed[name] if renamed[name] not in found else name, setting)
    return found


def _names_file(setting: Setting) -> bool:
    """Whether a setting names a file of DeepSpeed's; accelerate's takes any name."""
    value = str(setting.value)
    anything = setting.key.endswith(DEEPSPEED_FILE) and value.lower() not in ("none", "null", "")
    return value.endswith(DOCUMENTS) or anything


def _named_config(
    arguments: Mapping[str, Setting], accelerate: Mapping[str, Setting]
) -> Setting | None:
    """What names a file of DeepSpeed's config, if anything does."""
    naming = (
        arguments.get("deepspeed_config"),
        arguments.get("deepspeed"),
        accelerate.get(DEEPSPEED_FILE),
    )
    return next((each for each in naming if each is not None and _names_file(each)), None)
