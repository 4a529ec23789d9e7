"""The rows of the embedding, as far as the kind of the tokenizer or its name tells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from trainfit.catalog.configs import bundled_config
from trainfit.launch.draft import Reading


class Vocabulary(NamedTuple):
    """A number of tokens, and whose they are."""

    size: int
    whose: str


STANDARD: Mapping[str, Vocabulary] = {
    "GPT2BPETokenizer": Vocabulary(50_257, "GPT2BPETokenizer with GPT-2's own vocabulary"),
    "Llama2Tokenizer": Vocabulary(32_000, "Llama2Tokenizer with Llama 2's own vocabulary"),
}
"""Tokenizers that are made for one vocabulary: openai-community/gpt2 vocab.json, and the
SentencePiece model of meta-llama/Llama-2, which Mistral's and Mixtral's first ones equal in size.
"""
FILES = {"GPT2BPETokenizer": "vocab_file", "Llama2Tokenizer": "tokenizer_model"}
USUAL = {
    "GPT2BPETokenizer": ("gpt2", "/bpe/vocab.json"),
    "Llama2Tokenizer": ("tokenizer.model",),
}
"""Where the file of a vocabulary is named, and what is in the name of the one it is made for. What
Megatron-LM's functional tests call bpe/vocab.json is GPT-2's, as the memory shows that they record.
"""
OF_THE_HUB = "HuggingFaceTokenizer"


def vocabulary_of(reading: Reading, otherwise: str | None) -> Vocabulary | None:
    """The vocabulary of the tokenizer that is named, or that there is otherwise; None where only
    its files tell, as a file of a vocabulary that has a name of its own.

    A config.json has a row for every token of its tokenizer, and often some more, so that it counts
    rather too many.
    """
    kind = str(reading.value("tokenizer_type", otherwise))
    if kind in STANDARD:
        file = reading.settings.get(FILES[kind])
        own = file is not None and file.unknown is None and not _is_usual(kind, str(file.value))
        return None if own else STANDARD[kind]
    named = reading.settings.get("tokenizer_model")
    if kind != OF_THE_HUB or named is None or named.unknown is not None:
        return None
    bundled = bundled_config(str(named.value))
    config = bundled.config if bundled is not None else {}
    size = config.get("text_config", config).get("vocab_size")
    if not isinstance(size, int):
        return None
    return Vocabulary(size, f"the config.json of {named.value}, whose tokenizer may have fewer")


def _is_usual(kind: str, file: str) -> bool:
    plain = file.casefold().replace("-", "").replace("_", "")
    return any(each in plain for each in USUAL[kind])
