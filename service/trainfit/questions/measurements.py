"""From what runs have printed to measurements: the one path, shared by HTTP and the terminal."""

from collections.abc import Sequence

from trainfit.measurements.measurement import Measurements
from trainfit.specs.artifacts import Artifact, Artifacts


def measured(question: Artifacts) -> Measurements:
    """Every figure that the texts hold, and the lines that were not read."""
    return read_texts(question.artifacts)


def read_texts(artifacts: Sequence[Artifact]) -> Measurements:
    """What texts hold. Formats of logs are loaded by whoever reads one, which in a service are its
    workers.
    """
    from trainfit.measurements.read import read_measurements

    return read_measurements(artifacts)
