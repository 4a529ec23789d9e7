"""The guide: docs/ as a site that the service shows at /guide, made by MkDocs.

`python -m tools.guide` needs what requirements-docs.lock names, and nothing of the project's own.
"""
