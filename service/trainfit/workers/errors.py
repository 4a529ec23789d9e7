"""Why a worker has no result.

WorkerError
├── TooMuchWorkError    it took more memory or processor time than it may, and was ended
└── FaultError          the function raised what nobody expected; the text is its traceback
"""


class WorkerError(Exception):
    """A worker has no result."""


class TooMuchWorkError(WorkerError):
    """It took more memory or processor time than it may."""


class FaultError(WorkerError):
    """The function raised what nobody expected; the text is its traceback in the worker."""
