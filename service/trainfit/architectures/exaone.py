"""EXAONE 3: Llama's layer, four times as wide in its MLP where the config says no width."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder_values import read_decoder
from trainfit.architectures.vocabulary import Decoder, dims
from trainfit.specs.architecture import ModelSpec

_EXAONE = Decoder(dims=dims(vocab=102400, hidden=2048, layers=32, heads=32), tied=True)


def exaone(config: Config) -> ModelSpec:
    config = config.with_defaults(_EXAONE.dims, num_layers="num_hidden_layers")
    if config.get("intermediate_size") is None:
        config = Config(
            {**config.values, "intermediate_size": 4 * config.int("hidden_size")}, config.path
        )
    return read_decoder(_EXAONE, config)


PARSERS = {"exaone": exaone}
