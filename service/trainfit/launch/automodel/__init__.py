"""A recipe of NeMo AutoModel -> a job: models of transformers under FSDP2 or DDP.

Sources: NVIDIA-NeMo/Automodel nemo_automodel/components/distributed/config.py, _peft/lora.py,
loss/masked_ce.py and _transformers/auto_model.py.
"""
