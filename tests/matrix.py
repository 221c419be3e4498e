#!/usr/bin/env python3
"""800 steps in many combinations of build, instruction set, threads, schedule, micro-batch, recomputation, stop and
resume, and tracing: all must end with one trajectory digest. A slow test; prints a table.

    tests/matrix.py [--steps 800] [--builds release,clang,o3,no-recorder] [--json]

Builds are presets of CMakePresets.json under build/; those that are missing are an error. The last two runs are
negative controls: another seed must give another digest, and so must a planted fault that alters one bit."""
import argparse
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECIPE = ROOT / "tests/golden/matrix.toml"


def combinations(builds, targets):
    """(build, options): each a dictionary of what is asked of the run."""
    fused = [t for t in targets if t in ("avx3", "avx2", "neon")]
    slow = [t for t in targets if t not in fused]
    for build in builds:
        for simd, (threads, micro, hostile) in itertools.product(fused, [(1, 4, 0), (2, 1, 0), (3, 3, 17), (8, 2, 23)]):
            yield build, {"simd": simd, "threads": threads, "micro": micro, "hostile": hostile}
        yield build, {"threads": 2, "micro": 2, "recompute": True, "poison": True}
        yield build, {"threads": 2, "micro": 3, "stops": [1, 137, 500]}
        yield build, {"threads": 1, "micro": 4, "stops": [399, 400, 401, 799], "hostile": 31}
        yield build, {"threads": 8, "micro": 1, "recompute": True, "stops": [250], "hostile": 77}
    for simd in slow:
        yield builds[0], {"simd": simd, "threads": 2, "micro": 4}
    traced = [b for b in builds if b != "no-recorder"]
    for level in ("iteration", "phase", "module", "kernel", "kernel-reread"):
        yield traced[0], {"threads": 2, "micro": 2, "level": level}
    yield traced[0], {"threads": 2, "micro": 2, "level": "kernel", "stops": [333],
                      "capture": "kernel=linear.forward,iteration=400"}
    for build in traced[1:]:
        yield build, {"threads": 2, "micro": 4, "level": "kernel", "capture": "kernel=attention.backward,iteration=7"}


def train(build, options, steps, folder, program="samestep", extra=()):
    binary = ROOT / "build" / build / "bin" / program
    command = [str(binary), *extra, "train", str(RECIPE), "--run", str(folder / "run"), "--json", "--no-tensorboard",
               "--set", f"train.steps={steps}", "--threads", str(options.get("threads", 2)),
               "--micro-batch", str(options.get("micro", 4))]
    for flag in ("simd", "hostile"):
        if options.get(flag):
            command += [f"--{flag}", str(options[flag])]
    if options.get("recompute"):
        command += ["--set", "memory.recompute=layer"]
    if options.get("poison"):
        command += ["--poison"]
    if options.get("seed"):
        command += ["--set", f"train.seed={options['seed']}"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SAMESTEP_")}
    if options.get("level"):
        environment |= {"SAMESTEP_TRACE": str(folder / "trace"), "SAMESTEP_LEVEL": options["level"]}
    if options.get("capture"):
        environment["SAMESTEP_CAPTURE"] = options["capture"]
    for stop in [s for s in options.get("stops", []) if s < steps] + [None]:
        resume = ["--resume"] if (folder / "run").exists() else []
        until = ["--stop-after", str(stop)] if stop else []
        done = subprocess.run(command + resume + until, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            return f"exit {done.returncode}: {done.stderr.strip()}"
    if options.get("level") and not any((folder / "trace").iterdir()):
        return "no trace was written"
    return json.loads(done.stdout.splitlines()[-1])["digest"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--builds", default="release,clang,o3,no-recorder")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    builds = arguments.builds.split(",")
    for build in builds:
        if not (ROOT / "build" / build / "bin/samestep").exists():
            sys.exit(f"build/{build}/bin/samestep is missing: cmake --preset {build} && cmake --build build/{build}")
    binary = ROOT / "build" / builds[0] / "bin/samestep"
    targets = json.loads(subprocess.run([binary, "version", "--json"], check=True, capture_output=True,
                                        text=True).stdout)["simd_targets"]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for i, (build, options) in enumerate(combinations(builds, targets)):
            place = pathlib.Path(folder) / str(i)
            place.mkdir()
            begin = time.monotonic()
            digest = train(build, options, arguments.steps, place)
            rows.append({"build": build, "options": options, "digest": digest, "seconds": time.monotonic() - begin})
            shutil.rmtree(place)
            if not arguments.json:
                print(f"{digest}  {rows[-1]['seconds']:6.1f} s  {build:12} {options}", flush=True)
        same = len({row["digest"] for row in rows}) == 1 and len(rows[0]["digest"]) == 32
        controls = {}
        for name, options, program, extra in [
                ("another seed", {"seed": 99}, "samestep", ()),
                ("one flipped bit", {}, "samestep-faulty",
                 ("--fault", f"kernel=linear.forward,module=layers.1.mlp.down_proj,iteration={max(1, arguments.steps // 2)},kind=bit-flip,bit=20"))]:
            place = pathlib.Path(folder) / name.replace(" ", "-")
            place.mkdir()
            controls[name] = train(builds[0], options, min(arguments.steps, 100) if options else arguments.steps, place,
                                   program, extra)
    seen = all(len(d) == 32 and d != rows[0]["digest"] for d in controls.values())
    summary = {"combinations": len(rows), "steps": arguments.steps, "same": same, "digest": rows[0]["digest"],
               "controls": controls, "controls_differ": seen}
    print(json.dumps(summary | {"rows": rows}) if arguments.json else json.dumps(summary, indent=1))
    return 0 if same and seen else 1


if __name__ == "__main__":
    sys.exit(main())
