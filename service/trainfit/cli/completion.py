"""`trainfit completion`: what a shell completes commands with."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

SHELL = Parameter(help="Whose words it is in.")


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], SHELL], /) -> None:
    """Print a script that completes commands, flags, cards and choices.

    bash: trainfit completion bash > ~/.local/share/bash-completion/completions/trainfit
    zsh: trainfit completion zsh > ~/.zfunc/_trainfit, in a folder of fpath
    fish: trainfit completion fish > ~/.config/fish/completions/trainfit.fish
    """
    from trainfit.cli.app import app

    print(app.generate_completion(shell=shell))
