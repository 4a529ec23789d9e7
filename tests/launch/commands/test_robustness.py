"""Whatever is sent is read or refused, in bounded time."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from tests.launch.commands.programs import DATA
from tests.launch.commands.test_manifests import COMPOSE, JOB, JOB_SET, PYTORCH_JOB, SCRIPTS
from tests.launch.launches import within
from trainfit.launch.commands.unwrap import programs_of
from trainfit.launch.errors import LaunchError
from trainfit.specs.launch import Launch

SECONDS = 5.0
TEXTS = [path.read_text() for path in sorted(DATA.iterdir()) if path.suffix in (".sh", ".slurm")]
SIGNS = [
    "$(",
    "${",
    "}",
    ")",
    '"',
    "'",
    "((",
    "[[ ",
    "]]",
    "\\\n",
    "<<A\n",
    "|",
    "&&",
    ";;",
    "#",
    "\0",
]
WORDS = ["eval ", "for x in $@; do ", "done", "fi", "while :; do ", "if ", "source ", "x() {", "$x"]


def unwrapped(**given_: object) -> None:
    with within(SECONDS), suppress(LaunchError):
        programs_of(Launch.model_validate(given_))


@given(st.text(max_size=400), st.text(max_size=100))
def test_any_text(script: str, argv: str) -> None:
    unwrapped(argv=argv, files=[{"path": "a.sh", "content": script}])


@given(st.lists(st.sampled_from((*SIGNS, *WORDS, "a", " ", "\n", "=", "A")), max_size=60))
def test_text_of_a_shells_signs(parts: list[str]) -> None:
    unwrapped(files=[{"path": "a.sh", "content": "".join(parts)}])
    unwrapped(argv=["bash", "-c", "".join(parts)])


@st.composite
def mutated(draw: st.DrawFn, texts: list[str]) -> str:
    """A text with a few parts dropped, doubled or replaced."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 40)))
        put = draw(st.one_of(st.just(""), st.just(text[start:end] * 2), st.sampled_from(SIGNS)))
        text = text[:start] + put + text[end:]
    return text


@given(mutated(TEXTS))
def test_scripts_with_parts_changed(script: str) -> None:
    unwrapped(files=[{"path": "a.sh", "content": script}])


@given(mutated([SCRIPTS + PYTORCH_JOB, JOB, JOB_SET, COMPOSE]))
def test_manifests_with_parts_changed(text: str) -> None:
    unwrapped(files=[{"path": "a.yaml", "content": text}])


@given(
    st.lists(
        st.sampled_from(
            (
                *("torchrun", "srun", "python", "-m", "accelerate", "launch", "deepspeed", "env"),
                *("docker", "run", "bash", "-c", "--", "-N", "2", "--nproc_per_node", "t.py", "="),
                *("axolotl", "train", "sbatch", "mpirun", "-np", "--include", "a:0@b", "--x=1"),
            )
        ),
        max_size=12,
    )
)
def test_any_order_of_launchers_and_options(words: list[str]) -> None:
    unwrapped(argv=words)


def test_a_script_of_the_greatest_length_is_read_in_time() -> None:
    lines = "A+=(--x $B)\nif [ $C = 1 ]; then D=2; fi\ntorchrun t.py\n"
    for text in (lines, "X=$X$Y/$Z/a\n", "$(" * 80):
        content = (text * (262_144 // len(text)))[:262_144]
        unwrapped(files=[{"path": "a.sh", "content": content}])
