"""PyTorch itself as the judge of a training step's memory, on a CPU and without any data.

A real Hugging Face model is built of fake tensors, which have shapes and storages but no
contents, and takes two training steps on one rank. Every storage is followed from its creation to
its release; the second step, in which the optimizer's states exist, is the one that counts.

The oracle needs PyTorch and transformers in an environment of its own (`make oracle`), and the
service never sees it: nothing but `spec` can be imported without them.
"""
