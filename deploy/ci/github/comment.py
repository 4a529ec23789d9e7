"""Post a comment on a pull request, or bring up to date what an earlier run posted.

Whatever keeps it from that is told in the log, and the text goes to the summary of the step: a
comment is no verdict, and on a fork the token of a job may not write.
"""

import hashlib
import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 10
MAX_PAGES = 50
PER_PAGE = 100
MAX_CHARACTERS = 65_536
MAX_ANSWER_BYTES = 64 * 1024 * 1024


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """One who never takes the token to another address."""

    def redirect_request(self, *_: Any) -> None:
        return None


OPENER = urllib.request.build_opener(NoRedirect)


def ask(method: str, url: str, document: "dict[str, str] | None" = None) -> Any:
    """What GitHub answers. Raises OSError, ValueError or HTTPException."""
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {os.environ['TOKEN']}",
        "Content-Type": "application/json",
        "User-Agent": "trainfit",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    data = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    with OPENER.open(request, timeout=TIMEOUT_SECONDS) as answer:
        return json.loads(answer.read(MAX_ANSWER_BYTES))


def mark() -> str:
    """What an earlier run of the same check began with, whatever a workflow has beside it."""
    names = [os.environ.get(name, "") for name in ("GITHUB_WORKFLOW", "GITHUB_JOB", "FILES", "GPU")]
    return f"<!-- trainfit {hashlib.sha256(json.dumps(names).encode()).hexdigest()[:16]} -->"


def comments(url: str) -> Iterator[Any]:
    """The comments of the pull request, page by page."""
    for page in range(1, MAX_PAGES + 1):
        found = ask("GET", f"{url}?per_page={PER_PAGE}&page={page}")
        yield from found
        if len(found) < PER_PAGE:
            return


def is_ours(comment: Any) -> bool:
    """Whether a program wrote it: a person may write the mark, too, and change the text later."""
    return comment["user"]["type"] == "Bot" and comment["body"].startswith(mark())


def post(text: str) -> None:
    """Raises where GitHub does not take it, or answers in words of its own."""
    api, repository = os.environ["GITHUB_API_URL"], os.environ["GITHUB_REPOSITORY"]
    url = f"{api}/repos/{repository}/issues/{os.environ['NUMBER']}/comments"
    body = {"body": f"{mark()}\n{text}"[:MAX_CHARACTERS]}
    earlier = next(filter(is_ours, comments(url)), None)
    if earlier is None:
        ask("POST", url, body)
    else:
        ask("PATCH", f"{api}/repos/{repository}/issues/comments/{earlier['id']}", body)


def reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError) and error.code in (401, 403, 404):
        return f"the token may not comment (HTTP {error.code}): permissions of pull-requests: write"
    return f"no comment was posted: {type(error).__name__}"


def main() -> None:
    if not (os.environ["BODY"] and os.environ["NUMBER"]):
        return
    text = Path(os.environ["BODY"]).read_text("utf-8")
    try:
        post(text)
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException) as error:
        print(f"::notice title=Trainfit::{reason(error)}; the text is in the summary of the step")
        with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as summary:
            summary.write(text)


if __name__ == "__main__":
    main()
