"""The root of what is raised for a question that has no answer."""


class TrainfitError(Exception):
    """There is no answer; the text says why. What the core raises, each of its own class, and
    `trainfit.QuestionError` for what the fields or the launch of a question say.
    """
