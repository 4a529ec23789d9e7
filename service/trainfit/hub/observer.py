"""Who hears what the Hub and its caches do. Every name is of a closed set."""

from typing import Literal, Protocol

from trainfit.hub.entries import Layer

Outcome = Literal[
    "found",
    "missing",
    "gated",
    "renamed",
    "no_config",
    "rate_limited",
    "slow",
    "unreachable",
    "malformed",
]
"""What came of one request to the Hub."""


class Observer(Protocol):
    """Hears as things happen, on the event loop."""

    def hub_asked(self, outcome: Outcome, seconds: float) -> None:
        """A request to the Hub has ended, redirects included."""

    def model_found(self, layer: Layer) -> None:
        """A model was found there."""

    def cache_holds(self, configs: int) -> None:
        """So many configs are in memory."""

    def entry_malformed(self, layer: Layer) -> None:
        """What a cache holds is none of what this program writes, and is not used. Called from any
        thread.
        """


class Nobody:
    """Hears and does nothing."""

    def hub_asked(self, outcome: Outcome, seconds: float) -> None:
        pass

    def model_found(self, layer: Layer) -> None:
        pass

    def cache_holds(self, configs: int) -> None:
        pass

    def entry_malformed(self, layer: Layer) -> None:
        pass
