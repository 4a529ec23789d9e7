"""axolotl's YAML, with the DeepSpeed file that it names.

Source: axolotl 0.18 (utils/schemas/*.py, utils/config, utils/trainer.py, loaders/*.py,
core/builders/base.py, integrations/*/args.py).
"""
