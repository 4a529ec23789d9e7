"""NeMo 2's recipes -> a job: by their name at `nemo llm`, or in a script of NeMo-Run.

A recipe is a Python function, which is never run: what each sets stands in `recipes.json`, by
release. A script is read as syntax: what it says over a recipe counts, and what it does with one in
another way is named.

Sources: NVIDIA/NeMo nemo/collections/llm/recipes, nemo/collections/llm/gpt/model,
nemo/lightning/pytorch/strategies/megatron_strategy.py, nemo/lightning/pytorch/plugins,
nemo/lightning/pytorch/callbacks.
"""
