"""`trainfit completion`: what a shell completes commands with."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

SHELL = Parameter(help="Whose words it is in.")
ZSH_CALL = """\
if [[ $funcstack[1] == _trainfit ]]; then
  _cyclopts_trainfit "$@"
else
  compdef _cyclopts_trainfit trainfit
fi
"""
"""What completes: a file of fpath is the body of the function that zsh calls, and one that is
sourced has to say which. Cyclopts' script only defines it.
"""


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], SHELL], /) -> None:
    """Print a script that completes commands, flags, cards and choices.

    bash: trainfit completion bash > ~/.local/share/bash-completion/completions/trainfit
    zsh: trainfit completion zsh > ~/.zfunc/_trainfit, in a folder of fpath
    fish: trainfit completion fish > ~/.config/fish/completions/trainfit.fish
    """
    from trainfit.cli.app import app

    print(app.generate_completion(shell=shell))
    if shell == "zsh":
        print(ZSH_CALL)
