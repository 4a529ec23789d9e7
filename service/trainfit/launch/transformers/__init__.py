"""A run of Hugging Face's Trainer, as up to three sources tell of it, each by its own names.

TrainingArguments (a command line, JSON or YAML) with the arguments of the script beside them, the
config of accelerate, and DeepSpeed's. `run` has them together; the formats deepspeed, accelerate,
llama_factory and axolotl read through it as well.
"""
