"""The requests of a rank under Megatron: its model, its optimizer, and its steps."""
