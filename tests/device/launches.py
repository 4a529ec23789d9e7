"""Commands of transformers' run_clm.py and of `trl sft` and `trl dpo`, run for real on one GPU.

Nothing comes from the Hub: configurations are those that Trainfit bundles, weights are random, and
so are the tokens, of samples as long as the command allows. The rest is the programs' own code.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from tests.device.measuring import Steps

CONFIGS = Path(__file__).parents[2] / "service" / "trainfit" / "catalog" / "configs"
STEPS = 6
SAMPLES = 512


@dataclass
class ClmArguments:
    """What run_clm.py takes beside Trainer's own arguments, as far as it decides memory."""

    model_name_or_path: str = ""
    torch_dtype: str = "float32"
    block_size: int = 1024


def run(argv: str, folder: Path) -> dict[str, Any]:
    """Train what `argv` says for a few steps, from a folder that may be written to."""
    os.chdir(folder)
    words = [word for word in shlex.split(argv) if not word.endswith(".py")]
    words = words[next(i for i, word in enumerate(words) if word not in ("python", "trl")) :]
    name = words[words.index("--model_name_or_path") + 1]
    put_model(name)
    steps = Steps()
    with from_nowhere():
        if words[0] in ("sft", "dpo"):
            trainer = trl_trainer(words[0], words[1:])
        else:
            trainer = clm_trainer(words)
        trainer.add_callback(Measuring(steps))
        trainer.train()
    return steps.measured()


def put_model(name: str) -> None:
    """A folder as a clone from the Hub would be, without weights, at the path that `name` is."""
    source = CONFIGS / f"{name.replace('/', '__')}.json"
    Path(name).mkdir(parents=True, exist_ok=True)
    shutil.copy(source, Path(name) / "config.json")
    words = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, **{f"w{i}": 4 + i for i in range(64)}}
    tokens = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "<unk>"},
    }
    (Path(name) / "tokenizer.json").write_text(json.dumps(tokens))
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    special |= {"tokenizer_class": "PreTrainedTokenizerFast"}
    (Path(name) / "tokenizer_config.json").write_text(json.dumps(special))


@contextlib.contextmanager
def from_nowhere() -> Iterator[None]:
    """Weights of the right shapes for who asks for those of a folder."""
    real = transformers.PreTrainedModel.from_pretrained.__func__

    def from_pretrained(cls: Any, name: Any, *args: Any, **settings: Any) -> Any:
        config = settings.pop("config", None) or transformers.AutoConfig.from_pretrained(name)
        with torch.device("meta"):
            empty = cls._from_config(config, dtype=settings.get("dtype") or torch.float32)
        state = {
            key: torch.empty(value.shape, dtype=value.dtype)
            for key, value in empty.state_dict().items()
            if not (config.tie_word_embeddings and key == "lm_head.weight")
        }
        model = real(cls, None, *args, config=config, state_dict=state, **settings)
        model.name_or_path = model.config._name_or_path = str(name)
        return model

    transformers.PreTrainedModel.from_pretrained = classmethod(from_pretrained)
    try:
        yield
    finally:
        transformers.PreTrainedModel.from_pretrained = classmethod(real)


class Measuring(transformers.TrainerCallback):
    """Fills the weights before the first step, and looks at memory around each."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def on_train_begin(self, *_: Any, model: Any, **__: Any) -> None:
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.is_floating_point():
                    parameter.normal_(0, 0.02)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.steps.begin()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.steps.end()


def quiet(arguments: Any) -> Any:
    """The same arguments for so few steps that nothing is saved or reported."""
    arguments.max_steps = STEPS
    arguments.save_strategy = "no"
    arguments.report_to = []
    arguments.disable_tqdm = True
    return arguments


def clm_trainer(words: list[str]) -> Any:
    """What run_clm.py makes of its arguments, once texts have been cut into blocks."""
    parser = transformers.HfArgumentParser((ClmArguments, transformers.TrainingArguments))
    clm, arguments = parser.parse_args_into_dataclasses(words)
    config = transformers.AutoConfig.from_pretrained(clm.model_name_or_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        clm.model_name_or_path, config=config, dtype=getattr(torch, clm.torch_dtype)
    )
    return transformers.Trainer(
        model=model,
        args=quiet(arguments),
        train_dataset=Blocks(clm.block_size, config.get_text_config().vocab_size),
        data_collator=transformers.default_data_collator,
    )


class Blocks(torch.utils.data.Dataset):
    """Random tokens, cut into blocks."""

    def __init__(self, length: int, vocabulary: int) -> None:
        self.length, self.vocabulary = length, vocabulary

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> dict[str, Any]:
        ids = torch.randint(self.vocabulary, (self.length,))
        return {"input_ids": ids, "labels": ids.clone(), "attention_mask": torch.ones_like(ids)}


def trl_trainer(command: str, words: list[str]) -> Any:
    """What TRL's own script makes of its arguments, on samples of the greatest length."""
    import datasets
    import trl

    # Nothing is cached, and what cannot be pickled needs no digest either.
    datasets.fingerprint.Hasher.hash = lambda _: uuid.uuid4().hex
    arguments = trl.SFTConfig if command == "sft" else trl.DPOConfig
    parser = trl.TrlParser((trl.ScriptArguments, arguments, trl.ModelConfig))
    _, arguments, model = parser.parse_args_and_config(words)
    arguments.model_init_kwargs = {
        "attn_implementation": model.attn_implementation,
        "dtype": model.dtype,
    }
    length = arguments.max_length
    vocabulary = transformers.AutoConfig.from_pretrained(model.model_name_or_path).vocab_size
    if command == "sft":
        ids = torch.randint(vocabulary, (SAMPLES, length)).tolist()
        samples = {"input_ids": ids}
    else:
        prompt, answer = length // 4, length - length // 4 - 1
        samples = {
            "prompt": [" ".join(["w1"] * prompt)] * SAMPLES,
            "chosen": [" " + " ".join(["w2"] * answer)] * SAMPLES,
            "rejected": [" " + " ".join(["w3"] * answer)] * SAMPLES,
        }
    trainer = trl.SFTTrainer if command == "sft" else trl.DPOTrainer
    return trainer(
        model=model.model_name_or_path,
        args=quiet(arguments),
        train_dataset=datasets.Dataset.from_dict(samples),
        quantization_config=trl.get_quantization_config(model),
        peft_config=trl.get_peft_config(model),
    )
