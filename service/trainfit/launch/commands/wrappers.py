"""Programs that start another one as it is: env, nohup, numactl, containers, environments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trainfit.launch.commands.launchers import Step, noted
from trainfit.launch.commands.options import Interface, names
from trainfit.launch.program import TrainingProgram, Word
from trainfit.launch.settings import Setting

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A program that starts what stands behind its options.

    `subcommand` must follow its name; `positionals` stand before the command, an image for one;
    `variables` is the option that sets a variable of the environment.
    """

    interface: Interface
    subcommand: tuple[str, ...] = ()
    positionals: int = 0
    variables: str | None = None

    def unwrapped(self, words: Sequence[Word], program: TrainingProgram) -> Step | None:
        """What it starts; None where it does something else."""
        name, *rest = words
        if tuple(word.text for word in rest[: len(self.subcommand)]) != self.subcommand:
            return None
        rest = rest[len(self.subcommand) :]
        parsed = self.interface.parse(rest)
        program = noted(parsed, program, name.text.rpartition("/")[2])
        if self.variables is not None:
            program = _with_variables(rest, self.interface, self.variables, program)
        return _assigned(parsed.rest[self.positionals :], program)


def _assigned(words: Sequence[Word], program: TrainingProgram) -> Step:
    """Take NAME=value before a command into its environment, as env does."""
    environment = dict(program.environment)
    at = 0
    while at < len(words) and (found := _ASSIGNMENT.fullmatch(words[at].text)):
        environment[found[1]] = Setting.of(found[1], words[at], found[2])
        at += 1
    return words[at:], replace(program, environment=environment)


def _with_variables(
    words: Sequence[Word], interface: Interface, option: str, program: TrainingProgram
) -> TrainingProgram:
    """The variables that an option sets, which may be given many times."""
    environment = dict(program.environment)
    left = list(words)
    while left:
        name, setting, length = interface.option(left)
        if not left[0].text.startswith("-"):
            break
        if name == option and (found := _ASSIGNMENT.fullmatch(str(setting.value))):
            environment[found[1]] = Setting(
                found[1], found[2], setting.file, setting.line, setting.unknown
            )
        left = left[length:]
    return replace(program, environment=environment)


def _options(
    valued: str = "", switches: str = "", aliases: Mapping[str, str] | None = None
) -> Interface:
    return Interface(names(valued), names(switches), aliases=aliases or {})


_CONTAINER = _options(
    "a add_host annotation attach blkio_weight c cap_add cap_drop cgroup_parent cgroupns cidfile "
    "cpu_period cpu_quota cpu_shares cpus cpuset_cpus cpuset_mems device device_cgroup_rule dns "
    "dns_option dns_search domainname e entrypoint env env_file expose gpus group_add h "
    "health_cmd hostname ip ip6 ipc isolation l label label_file link log_driver log_opt m "
    "mac_address memory memory_reservation memory_swap memory_swappiness mount name network "
    "network_alias oom_score_adj p pid pids_limit platform publish pull restart runtime "
    "security_opt shm_size stop_signal stop_timeout storage_opt sysctl tmpfs u ulimit user userns "
    "uts v volume volume_driver volumes_from w workdir net",
    "d detach i init interactive it ti itd no_healthcheck oom_kill_disable P privileged "
    "publish_all q quiet read_only rm sig_proxy t tty",
    {"e": "env"},
)
_APPTAINER = _options(
    "B H W apply_cgroups app bind blkio_weight cpus cpuset_cpus cpuset_mems dns docker_login env "
    "env_file fusemount home hostname memory mount network network_args no_mount overlay pem_path "
    "pid_file pwd scratch security workdir",
    "C c cleanenv compat contain containall disable_cache e fakeroot i ipc n nv nvccli p pid rocm "
    "u unsquash userns w writable writable_tmpfs no_home no_init no_eval keep_privs no_privs net",
)
_UV_RUN = _options(
    "extra group no_group only_group with with_editable with_requirements env_file package p "
    "python project directory index default_index cache_dir color m module w refresh_package "
    "upgrade_package reinstall_package resolution prerelease",
    "all_extras all_groups no_dev dev no_sync frozen locked isolated active exact offline q quiet "
    "no_project no_config no_cache v verbose no_editable all_packages s script managed_python",
)
_CONDA_RUN = _options(
    "n name p prefix cwd", "no_capture_output live_stream v verbose dev debug_wrapper_scripts s"
)
_NSYS = _options(
    "a b backtrace c capture_range capture_range_end cuda_memory_usage cudabacktrace d delay "
    "duration e env_var f force_overwrite gpu_metrics_device gpu_metrics_devices gpuctxsw kill n "
    "nvtx_capture o osrt_threshold output p python_backtrace python_sampling s sample "
    "samples_per_backtrace session_new stats stop_on_exit t trace trace_fork_before_exec w wait x "
    "y cuda_graph_trace",
)
_RAY_JOB_SUBMIT = _options(
    "address entrypoint_memory entrypoint_num_cpus entrypoint_num_gpus entrypoint_resources "
    "headers job_id log_color log_style metadata_json runtime_env runtime_env_json submission_id "
    "verify working_dir",
    "no_wait v verbose",
)
_PLAIN = _options()

WRAPPERS: Mapping[str, Wrapper] = {
    "apptainer": Wrapper(_APPTAINER, ("exec",), positionals=1, variables="env"),
    "catchsegv": Wrapper(_PLAIN),
    "command": Wrapper(_PLAIN),
    "conda": Wrapper(_CONDA_RUN, ("run",)),
    "docker": Wrapper(_CONTAINER, ("run",), positionals=1, variables="env"),
    "enroot": Wrapper(_options("c conf e env m mount", "r rw root"), ("start",), 1, "env"),
    "env": Wrapper(_options("C chdir S split_string u unset", "0 i ignore_environment null v")),
    "exec": Wrapper(_options("a", "c l")),
    "ionice": Wrapper(_options("c class n classdata", "t ignore")),
    "mamba": Wrapper(_CONDA_RUN, ("run",)),
    "micromamba": Wrapper(_CONDA_RUN, ("run",)),
    "nice": Wrapper(_options("adjustment n")),
    "nohup": Wrapper(_PLAIN),
    "nsys": Wrapper(_NSYS, ("profile",)),
    "numactl": Wrapper(
        _options(
            "C N P cpunodebind i interleave m membind p physcpubind preferred w "
            "weighted_interleave",
            "a all b balancing l localalloc",
        )
    ),
    "nvidia-docker": Wrapper(_CONTAINER, ("run",), positionals=1, variables="env"),
    "pdm": Wrapper(_PLAIN, ("run",)),
    "pipenv": Wrapper(_PLAIN, ("run",)),
    "podman": Wrapper(_CONTAINER, ("run",), positionals=1, variables="env"),
    "poetry": Wrapper(_PLAIN, ("run",)),
    "ray": Wrapper(_RAY_JOB_SUBMIT, ("job", "submit")),
    "setsid": Wrapper(_options("", "c ctty f fork w wait")),
    "singularity": Wrapper(_APPTAINER, ("exec",), positionals=1, variables="env"),
    "stdbuf": Wrapper(_options("e error i input o output")),
    "sudo": Wrapper(_options("C D g group h host p prompt u user", "E H b k n preserve_env S")),
    "taskset": Wrapper(_options("c cpu_list p pid", "a all_tasks")),
    "time": Wrapper(_options("f format o output", "a append p portability v verbose")),
    "timeout": Wrapper(
        _options("k kill_after s signal", "foreground preserve_status v verbose"), (), 1
    ),
    "tini": Wrapper(_options("e p", "g s v w")),
    "uv": Wrapper(_UV_RUN, ("run",)),
}
"""By the name of the program."""
