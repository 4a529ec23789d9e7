"""The service over HTTP, and what its workers answer."""

from trainfit.specs.part import build_at_once

build_at_once()
"""A service asks for every part of a job, and validators that are there when others are built are
shared by them: 4 MiB less in each of its processes.
"""
