"""Why there is no config.json. The text of each is for the one who asked for the model.

HubError
├── NotAllowedError             the operator does not look up models of this organisation
├── OfflineError                nothing is fetched, and no cache has it
├── RepoError                   what the Hub has is no config
│   ├── MissingRepoError        no such repository, as far as this caller may know
│   ├── MissingRevisionError    no such branch, tag or commit
│   ├── GatedRepoError          only for those who were granted access
│   ├── RenamedRepoError        it has another name now
│   ├── NoConfigError           it has no config.json
│   └── AdapterError            it is an adapter of another model
└── NoAnswerError               the Hub cannot be asked, or does not answer as it should
    ├── UnreachableError        no connection, or a failure of its own
    ├── RateLimitedError        too many requests
    ├── SlowHubError            the time was up
    └── MalformedAnswerError    an answer that is not what a Hub sends
"""

from trainfit.errors import TrainfitError


class HubError(TrainfitError):
    """There is no config.json. `instead` is the repository to ask for, where there is one."""

    instead: str | None = None


class NotAllowedError(HubError):
    def __init__(self) -> None:
        super().__init__("models of this organisation are not looked up here")


class OfflineError(HubError):
    def __init__(self) -> None:
        super().__init__("the Hub is not asked (HF_HUB_OFFLINE), and no cache has this model")


class RepoError(HubError):
    """What the Hub has is no config. It will say the same for a while."""


class MissingRepoError(RepoError):
    def __init__(self) -> None:
        super().__init__("the Hub has no such model, or hides it from who asks")


class MissingRevisionError(RepoError):
    def __init__(self) -> None:
        super().__init__("the model has no such branch, tag or commit")


class GatedRepoError(RepoError):
    """`refused`: a token was sent and did not help."""

    def __init__(self, *, refused: bool) -> None:
        super().__init__(
            "the token gives no access to this model"
            if refused
            else "the model is gated or private: it takes a token of someone who was granted access"
        )


class RenamedRepoError(RepoError):
    def __init__(self, new_name: str) -> None:
        super().__init__(f"the model is called {new_name} now")
        self.instead = new_name


class NoConfigError(RepoError):
    def __init__(self) -> None:
        super().__init__("the repository has no config.json, so it is no model of transformers")


class AdapterError(RepoError):
    """`base` is the model that is adapted, where the adapter says so."""

    def __init__(self, base: str | None) -> None:
        of = f" of {base}" if base else ""
        super().__init__(f"the repository holds an adapter{of}: ask for the model that it adapts")
        self.instead = base


class NoAnswerError(HubError):
    """The Hub cannot be asked, or does not answer as it should. It may after `retry_after`
    seconds.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class UnreachableError(NoAnswerError):
    """`connected` is False where there was not even a connection."""

    def __init__(
        self, message: str, retry_after: float | None = None, *, connected: bool = True
    ) -> None:
        super().__init__(message, retry_after)
        self.connected = connected


class RateLimitedError(NoAnswerError):
    def __init__(self, retry_after: float | None) -> None:
        super().__init__("the Hub takes no more requests for now", retry_after)


class SlowHubError(NoAnswerError):
    def __init__(self) -> None:
        super().__init__("the Hub did not answer in time")


class MalformedAnswerError(NoAnswerError):
    pass
