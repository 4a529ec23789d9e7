"""Options and values of forks that do not change memory; Megatron-LM's are in `keys.json`."""

VALUE_IRRELEVANT = frozenset(("lr_wsd_decay_style", "rotary_base", "tokenizer_type"))
"""Options that forks give other values: another decay, a base that is no whole number, a tokenizer
of their own, whose vocabulary has to be given as that of any other."""

OF_ENGINES = ("--sglang-",)
"""How options of an engine of inference begin, which slime hands on to it."""
