"""torchtune: recipes' YAML files with key=value over them.

torchtune's modules are its own. They keep the tensors of transformers', under which they go.
"""
