"""LLaMA-Factory's YAML, JSON or arguments, with the DeepSpeed file that it names.

Source: LLaMA-Factory 0.9.6 (hparams/*.py, model/loader.py, model/adapter.py, model/patcher.py).
"""
