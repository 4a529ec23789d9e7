"""NVIDIA's NeMo-RL: configs in YAML over one another, with Hydra's words over them."""
