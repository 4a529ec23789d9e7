"""What the driver tells of a card: nvidia-smi and NVIDIA's DCGM exporter, both in MiB."""

from trainfit.measurements.line_format import MIB, Bytes, LineFormat, known_by_its_words
from trainfit.specs.artifacts import Counter


def _framebuffer(name: str, counter: Counter) -> LineFormat:
    key = f"DCGM_FI_DEV_FB_{name}"
    figure = Bytes(rf"{key}\{{[^{{}}]{{0,1000}}\}} ", counter, MIB)
    return known_by_its_words("dcgm", key, figure, moment="scraped")


FORMATS = (
    LineFormat(
        "nvidia-smi",
        "MiB",
        r"\b(?=\d+MiB */ *\d+MiB)",
        (
            Bytes(r"", "device_used", MIB),
            Bytes(r"MiB */ *", "device_capacity", MIB),
        ),
        moment="asked",
    ),
    _framebuffer("USED", "device_used"),
    _framebuffer("FREE", "device_free"),
)
