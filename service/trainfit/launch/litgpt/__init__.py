"""A config of litgpt's finetuning, or its command line -> a job.

Sources: Lightning-AI/litgpt litgpt/finetune/full.py and lora.py, litgpt/args.py and utils.py.
"""
