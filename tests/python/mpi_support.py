"""What the tests of several processes share: launchers, recipes, and the processes of a job.

SAMESTEP_SLOW_TESTS=1 adds the long versions (`slow`): all kills and sequences that the project promises.
"""

import contextlib
import functools
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest

from conftest import BINARIES, program

SLOW = os.environ.get("SAMESTEP_SLOW_TESTS", "") not in ("", "0")
slow = pytest.mark.skipif(not SLOW, reason="slow: set SAMESTEP_SLOW_TESTS=1")
PATIENCE = 600  # seconds that no command of a test should need, on however busy a machine

LLAMA = """
[model]
family = "llama"
vocab = 257
vocab_padded = 264
hidden = 64
layers = 4
heads = 8
kv_heads = 4
intermediate = 96
sequence = 64
{model}

[data]
path = "{corpus}"
split = "90,10,0"
tokenizer = "bytes"

[train]
steps = 6
global_batch = 8
micro_batch = 1
seed = 3
checkpoint_every = 2
evaluate_every = 3
evaluate_samples = 5

[optimizer]
lr = 3e-3

[invariance]
data_lanes = 4
tensor_lanes = 4
"""
GPT2 = LLAMA.replace('"llama"', '"gpt2"').replace("kv_heads = 4\n", "").replace("intermediate = 96\n", "")


def write_recipe(path, corpus, text=LLAMA, model="", **train):
    text = text.format(corpus=corpus, model=model)
    for field, value in train.items():
        text, changes = re.subn(rf"^{field} = .*$", f"{field} = {value}", text, flags=re.M)
        assert changes == 1, field
    path.write_text(text)
    return path


@functools.cache
def mpi_of(binary):
    """"Open MPI", "MPICH", or None where the program was built without."""
    libraries = subprocess.run(["ldd", binary], capture_output=True, text=True).stdout
    if "libmpich.so" in libraries or "libmpi.so.12" in libraries:
        return "MPICH"
    return "Open MPI" if "libmpi.so" in libraries else None


@functools.cache
def launcher():
    """The command of the launcher, up to `-n`; skips the test where there is none."""
    mpi = mpi_of(program("samestep"))
    if mpi is None:
        pytest.skip("the program was built without MPI: scripts/setup installs Open MPI")
    names = ["mpiexec.mpich", "mpiexec.hydra"] if mpi == "MPICH" else ["mpirun.openmpi", "mpirun"]
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        pytest.skip(f"none of {names} is installed: scripts/setup installs Open MPI, scripts/setup --dev MPICH")
    # The processes take turns on the cores, so they must give them up while they wait.
    return [found] if mpi == "MPICH" else [found, "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]


def environment(**variables):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SAMESTEP_", "OMPI_", "PMI_"))}
    clean |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return clean | {k: str(v) for k, v in variables.items()}


def layout_fields(layout):
    """--set options of (data, tensor, pipeline[, chunks])."""
    fields = dict(zip(["data", "tensor", "pipeline", "chunks"], layout))
    return [item for name, value in fields.items() for item in ("--set", f"layout.{name}={value}")]


def ranks_of(layout):
    return layout[0] * layout[1] * layout[2]


def preloaded(library):
    """Options of the launcher, after `-n N`, which make the processes load a library first, and not itself."""
    if mpi_of(program("samestep")) == "MPICH":
        return ["-genv", "LD_PRELOAD", str(library)]
    return ["-x", f"LD_PRELOAD={library}"]


def train_command(ranks, *arguments, fault="", preload=None):
    command = [program("samestep-faulty"), "--fault", fault] if fault else [program("samestep")]
    return [*launcher(), "-n", str(ranks), *(preloaded(preload) if preload else []), *command, "train",
            *map(str, arguments), "--threads", "1", "--no-tensorboard"]


def run(command, status=0, env=None, **options):
    """Runs a command to its end, in a session of its own, so that it can be ended with all that it started."""
    with subprocess.Popen([str(part) for part in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=env or environment(), **options) as process:
        return finish(process, status)


def has_only_dead_children(pid):
    """Mpirun of Open MPI 4.1 sometimes hangs in its own end (a lock of PMIx) after its ranks have died."""
    states = []
    for thread in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in thread.read_text().split():
                states.append(pathlib.Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0])
    return bool(states) and set(states) == {"Z"}


def communicate(process, patience):
    """Waits for a launcher; one that hangs with dead ranks only is killed after 20 s, which shows in its exit code."""
    end, dead_since = time.monotonic() + patience, None
    while True:
        try:
            return process.communicate(timeout=min(1, max(0.01, end - time.monotonic())))
        except subprocess.TimeoutExpired:
            now = time.monotonic()
            dead_since = (dead_since or now) if has_only_dead_children(process.pid) else None
            if dead_since and now - dead_since > 20:
                process.launcher_hung = True
                process.kill()
            elif now >= end:
                raise


def finish(process, status=0, patience=PATIENCE):
    try:
        out, err = communicate(process, patience)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            out, err = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
        pytest.fail(f"{process.args} did not end within {patience} s\n{out}\n{err}")
    if isinstance(status, int):
        assert process.returncode == status, f"{process.args} ended with {process.returncode}\n{out}\n{err}"
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    done.launcher_hung = getattr(process, "launcher_hung", False)
    return done


def start(command, env=None):
    return subprocess.Popen([str(part) for part in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=env or environment())


def train(layout, recipe, folder, *arguments, status=0, fault="", preload=None, **variables):
    """One training over as many processes as the layout has ranks, which has to end with `status`."""
    command = train_command(ranks_of(layout), recipe, "--run", folder, "--json", *layout_fields(layout), *arguments,
                            fault=fault, preload=preload)
    return run(command, status=status, env=environment(**variables))


def said(done):
    """What samestep printed as a message, from all ranks; planted faults announce themselves, which is no message."""
    lines = (done.stdout + done.stderr).splitlines()
    return [line for line in lines if line.startswith("samestep:") and "PLANTED FAULT" not in line]


def processes_of(folder):
    """rank -> process of the samestep processes that have this run folder as an argument; with None, all else."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if os.fsencode(str(folder)) not in words:
                continue
            variables = dict(v.split(b"=", 1) for v in (entry / "environ").read_bytes().split(b"\0") if b"=" in v)
        except (OSError, ProcessLookupError):
            continue  # it has just ended
        rank = variables.get(b"OMPI_COMM_WORLD_RANK", variables.get(b"PMI_RANK"))
        is_rank = rank is not None and os.path.basename(words[0]).startswith(b"samestep")
        found[int(rank) if is_rank else None] = int(entry.name)
    return found


def wait_until(condition, process=None, patience=PATIENCE):
    """Whether the condition came true before the process ended; fails where neither happens."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        if process is not None and process.poll() is not None:
            return condition()
        time.sleep(0.005)
    pytest.fail(f"waited {patience} s in vain")


def assert_no_process_left(folder):
    wait_until(lambda: not processes_of(folder), patience=30)


def checkpoints(folder):
    try:
        names = os.listdir(pathlib.Path(folder) / "checkpoints")
    except FileNotFoundError:
        return []
    return sorted(int(name[5:]) for name in names if re.fullmatch(r"step-\d+", name))


def saves(folder):
    """Whether a checkpoint is being written."""
    try:
        return any(name.endswith(".partial") for name in os.listdir(pathlib.Path(folder) / "checkpoints"))
    except FileNotFoundError:
        return False


def guard():
    path = BINARIES / "samestep_mpi_guard.so"
    if not path.exists():
        pytest.skip(f"{path} is missing")
    return path
