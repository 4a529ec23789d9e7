"""What deploy/ci/ offers, run as its host would run it, with the `trainfit` of this environment."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.deploy.hosts import CI, FITS, ROOT, TOO_LONG, loaded, shell

# GitLab


def test_the_gitlab_job_reports_and_fails(repository: Path) -> None:
    example = loaded(CI / "gitlab" / "example.gitlab-ci.yml")
    (include,) = example["include"]
    template = loaded(ROOT / include["file"])
    job = example["gpu-memory"]
    base = template[job["extends"]]
    variables = {**base["variables"], **job["variables"]}
    assert base["image"]["name"] == "$TRAINFIT_IMAGE"
    script = "\n".join(["set -e", *base["script"]])

    def run(**changed: str) -> subprocess.CompletedProcess[str]:
        return shell(["sh", "-c", script], repository, **{**variables, **changed})

    assert run().returncode == 0
    done = run(TRAINFIT_FILES="jobs/*.yaml jobs/*/*.yaml", TRAINFIT_GPU="H100-80GB B200")
    assert done.returncode == 1
    assert "usable (GiB)" in done.stdout
    report = repository / base["artifacts"]["reports"]["junit"]
    (suite,) = ElementTree.parse(report).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("4", "2")


# pre-commit


def test_the_hook_checks_the_files_that_it_is_given(repository: Path) -> None:
    (hook,) = loaded(ROOT / ".pre-commit-hooks.yaml")
    (used,) = loaded(CI / "pre-commit" / "example.pre-commit-config.yaml")["repos"][0]["hooks"]
    assert used["id"] == hook["id"]
    assert re.search(used["files"], f"jobs/{FITS}")
    assert not re.search(used["files"], "deploy/compose/compose.yaml")
    command = [*shlex.split(hook["entry"]), *used["args"]]
    assert shell([*command, f"jobs/{FITS}"], repository).returncode == 0
    done = shell([*command, f"jobs/{FITS}", f"jobs/long/{TOO_LONG}"], repository)
    assert done.returncode == 1
    assert "does not fit" in done.stdout


# Slurm

WRAPPER = CI / "slurm" / "sbatch-fit-check"
SBATCH = """#!/bin/sh
for argument; do printf '<%s>' "$argument"; done
"""


@pytest.fixture
def login_node(repository: Path) -> Path:
    """A folder with a batch script in it and an `sbatch` that tells what it is given."""
    sbatch = repository / "sbatch"
    sbatch.write_text(SBATCH, "utf-8")
    sbatch.chmod(0o755)
    shutil.copy(CI / "slurm" / "example.sbatch", repository)
    return repository


def submit(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    sbatch = {"TRAINFIT_SBATCH": str(folder / "sbatch")}
    return shell([str(WRAPPER), *words], folder, **{**sbatch, **variables})


def test_a_job_that_fits_is_submitted_as_it_was_given(login_node: Path) -> None:
    done = submit(login_node, "--nodes", "2", "--export=A=b c", "example.sbatch", "an argument")
    assert done.returncode == 0
    assert done.stdout == "<--nodes><2><--export=A=b c><example.sbatch><an argument>"
    assert "fits" in done.stderr


@pytest.mark.parametrize("comment", ["--comment=trainfit", '--comment "trainfit"'])
@pytest.mark.parametrize(("size", "code"), [("2", 1), ("1", 0)])
def test_a_batch_script_is_read_itself(
    login_node: Path, comment: str, size: str, code: int
) -> None:
    script = (CI / "example-pretrain.sh").read_text("utf-8")
    script = script.replace("--micro-batch-size 2", f"--micro-batch-size {size}")
    script = script.replace("#SBATCH --nodes=4", f"#SBATCH --nodes=4\n#SBATCH {comment}")
    login_node.joinpath("pretrain.sh").write_text(script, "utf-8")
    done = submit(login_node, "pretrain.sh", TRAINFIT_GPU="H100-80GB")
    assert (done.returncode, done.stdout) == (code, "" if code else "<pretrain.sh>")


@pytest.mark.parametrize(
    "comment",
    [
        "#SBATCH --comment=trainfit:jobs/long/llama-8b-long.yaml",
        '#SBATCH --comment="trainfit:jobs/long/llama-8b-long.yaml and more"',
        "#SBATCH -N 1 --comment 'trainfit:jobs/long/llama-8b-long.yaml'",
    ],
)
def test_a_job_that_does_not_fit_is_not_submitted(login_node: Path, comment: str) -> None:
    login_node.joinpath("job.sh").write_text(f"#!/bin/bash\n{comment}\nsrun x\n", "utf-8")
    done = submit(login_node, "job.sh")
    assert (done.returncode, done.stdout) == (1, "")
    assert "does not fit" in done.stderr


@pytest.mark.parametrize("words", [["--wrap", "hostname"], ["other.sh"], ["nowhere.sh"], []])
def test_what_names_no_job_is_left_to_sbatch(login_node: Path, words: list[str]) -> None:
    login_node.joinpath("other.sh").write_text("#!/bin/sh\n#SBATCH -N 1\n", "utf-8")
    done = submit(login_node, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "".join(f"<{word}>" for word in words)


LONG = "trainfit:jobs/long/llama-8b-long.yaml"
SHORT = "trainfit:jobs/llama-8b.yaml"


def batch_script(*lines: str) -> str:
    return "\n".join(["#!/bin/bash", *lines, "srun x"]) + "\n"


def test_the_script_that_sbatch_takes_is_checked(login_node: Path) -> None:
    """Not the file that an option before it names."""
    login_node.joinpath("decoy.sh").write_text(batch_script(f"#SBATCH --comment={SHORT}"), "utf-8")
    login_node.joinpath("real.sh").write_text(batch_script(f"#SBATCH --comment={LONG}"), "utf-8")
    for words in ("-o decoy.sh", "--output decoy.sh", "-Ho decoy.sh", "-odecoy.sh", "--hold"):
        assert submit(login_node, *words.split(), "real.sh").returncode == 1


def test_the_comment_that_sbatch_takes_is_read(login_node: Path) -> None:
    """The last one before the first command, unless the command line has one."""
    both = f"#SBATCH --comment={SHORT}", f"#SBATCH --comment={LONG}"
    job = login_node / "job.sh"
    job.write_text(batch_script(*both), "utf-8")
    assert submit(login_node, "job.sh").returncode == 1
    assert submit(login_node, f"--comment={SHORT}", "job.sh").returncode == 0
    job.write_text(batch_script(*both[::-1]), "utf-8")
    assert submit(login_node, "job.sh").returncode == 0
    assert submit(login_node, "--comment", LONG, "job.sh").returncode == 1
    job.write_text(batch_script(both[0], "true", both[1]), "utf-8")
    assert submit(login_node, "job.sh").returncode == 0


def test_a_command_and_standard_input_are_checked_too(login_node: Path) -> None:
    assert submit(login_node, f"--comment={LONG}", "--wrap", "srun x").returncode == 1
    unread = submit(login_node, "--comment=trainfit", "--wrap=srun x")
    assert unread.returncode == 0
    assert "no script" in unread.stderr
    strict = {"TRAINFIT_ON_ERROR": "fail"}
    assert submit(login_node, "--comment=trainfit", "--wrap=srun x", **strict).returncode == 5
    for comment, code in ((LONG, 1), (SHORT, 0)):
        script = batch_script(f"#SBATCH --comment={comment}")
        login_node.joinpath("piped.sh").write_text(script, "utf-8")
        piped = ["sh", "-c", '"$0" < piped.sh', str(WRAPPER)]
        done = shell(piped, login_node, TRAINFIT_SBATCH="cat")
        assert (done.returncode, done.stdout) == (code, "" if code else script)


def test_the_partition_has_its_card_and_its_policy(login_node: Path) -> None:
    assert submit(login_node, "example.sbatch", TRAINFIT_GPU="A100-40GB").returncode == 1
    between = {"TRAINFIT_GPU": "L40S", "TRAINFIT_FAIL_ON": "tight"}
    assert submit(login_node, "example.sbatch", **between).returncode == 1


def test_a_check_that_cannot_be_made_stops_nobody_unless_told_to(login_node: Path) -> None:
    login_node.joinpath("bin").mkdir()
    for program in ("env", "bash", "head", "sed"):
        login_node.joinpath("bin", program).symlink_to(shutil.which(program) or program)
    without = {"PATH": str(login_node / "bin")}
    done = submit(login_node, "example.sbatch", **without)
    assert (done.returncode, done.stdout) == (0, "<example.sbatch>")
    assert "trainfit is not on the PATH" in done.stderr
    refused = submit(login_node, "example.sbatch", TRAINFIT_ON_ERROR="fail", **without)
    assert (refused.returncode, refused.stdout) == (5, "")


def test_the_wrapper_asks_nothing_of_a_network() -> None:
    code = re.sub(r"^\s*#.*", "", WRAPPER.read_text("utf-8"), flags=re.MULTILINE)
    assert not re.search(r"--server|https?:|curl|wget", code)
    assert os.access(WRAPPER, os.X_OK)
