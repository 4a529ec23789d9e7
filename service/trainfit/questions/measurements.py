"""From what runs have printed to measurements: the one path, shared by HTTP and the terminal."""

from trainfit.measurements.measurement import Measurements
from trainfit.measurements.read import read_measurements
from trainfit.specs.artifacts import Artifacts


def measured(question: Artifacts) -> Measurements:
    """Every figure that the texts hold, and the lines that were not read."""
    return read_measurements(question.artifacts)
