"""accelerate's config file and the flags of accelerate launch. Source: accelerate 1.15
(commands/config/config_args.py, commands/launch.py, utils/dataclasses.py).
"""
