"""An experiment of AMD's Primus -> a job: Megatron-LM's arguments, or torchtitan's keys, in YAML.

An experiment names a preset of a trainer and one of a model, and overrides of both. What a preset
says stands in `presets.json`, by release. The arguments are then read as those of the backend.

Sources: AMD-AGI/Primus primus/core/launcher/parser.py, primus/core/config/yaml_loader.py,
primus/configs, primus/backends.
"""
