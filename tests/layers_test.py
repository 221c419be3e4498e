"""Checks who includes whom in src/: a folder may include only what stands below it.

Runs with plain `python3 tests/layers_test.py` or under pytest; needs nothing but Python.

The order is that of docs/design/architecture.md:

    base < numerics < tensor < fingerprint < kernels < trace < comm < parallel < model
         < optimizer, data, checkpoint, recipe < plan < train < cli

with these exceptions:
  * folders on one step (optimizer, data, checkpoint, recipe) do not include each other;
  * of kernels, `trace` may include kernels/call.h alone (the interface of an observer of calls), and that
    header includes no other header of kernels: the instrument knows no kernel. The recorder (trace/recorder/)
    is the part that meets the engine: it and the tests of trace may include all of kernels;
  * `locate`, `check` and `report` stand on trace and on what is below kernels, and link trace_format alone,
    the library of trace without the recorder, which links no kernel;
  * `faults` plants faults: it may include everything, and only tests and its own programs include or link it.
"""

import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent

STEPS = [
    ["base"],
    ["numerics"],
    ["tensor"],
    ["fingerprint"],
    ["kernels"],
    ["trace"],
    ["comm"],
    ["parallel"],
    ["model"],
    ["optimizer", "data", "checkpoint", "recipe"],
    ["plan"],
    ["train"],
]
INSTRUMENT = ["locate", "check", "report"]
OBSERVER = "kernels/call.h"
MEETS_KERNELS = re.compile(r"^trace/(recorder/.*|.*_test\.(cc|h))$")
FAULTY_PROGRAMS = re.compile(r"^(samestep-faulty|zoo.*|.*_test)$")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
COMMAND = re.compile(r"\b(samestep_library|samestep_tests|target_link_libraries)\s*\(([^)]*)\)")


def allowed_folders():
    """For each folder of src/, the other folders it may include."""
    allowed, below = {}, []
    for step in STEPS:
        for folder in step:
            allowed[folder] = set(below)
        below += step
    for folder in INSTRUMENT:
        allowed[folder] = {"base", "numerics", "tensor", "fingerprint", "trace"}
    allowed["cli"] = set(below) | set(INSTRUMENT)
    allowed["faults"] = set(below) | set(INSTRUMENT) | {"cli"}
    return allowed


ALLOWED = allowed_folders()


def source_files(src):
    return sorted(p for p in src.rglob("*") if p.suffix in (".h", ".cc", ".c", ".cpp", ".hpp"))


def includes(src):
    """(file, line, bracket, included path as written) of each #include, files relative to src."""
    for path in source_files(src):
        text = path.read_text(encoding="utf-8")
        for match in INCLUDE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield path.relative_to(src).as_posix(), line, match.group(1), match.group(2)


def resolve(src, includer, name):
    """The included file relative to src, or None where it is not one of ours."""
    if (src / name).is_file():
        return name
    beside = pathlib.PurePosixPath(includer).parent / name
    return beside.as_posix() if (src / beside).is_file() else None


def may_include(includer, included):
    here, there = includer.split("/")[0], included.split("/")[0]
    if includer == OBSERVER and there == "kernels":
        return False
    if here == there:
        return True
    if there == "faults":
        return includer.endswith("_test.cc")
    if here == "trace" and there == "kernels":
        return included == OBSERVER or MEETS_KERNELS.match(includer) is not None
    return there in ALLOWED[here]


def include_violations(src):
    found = []
    for path in source_files(src):
        parts = path.relative_to(src).parts
        if len(parts) < 2 or parts[0] not in ALLOWED:
            found.append(f"{'/'.join(parts)}: stands in no known folder of src/")
    if found:
        return found
    for includer, line, bracket, name in includes(src):
        where = f"{includer}:{line}"
        included = resolve(src, includer, name)
        if included is None:
            if name.split("/")[0] in ALLOWED and "/" in name:
                found.append(f"{where}: includes {name}, which does not exist")
        elif bracket == "<":
            found.append(f"{where}: includes {name} in <>; ours are included in quotes")
        elif not may_include(includer, included):
            found.append(f"{where}: {includer.split('/')[0]} may not include {included}")
    return found


def include_cycles(src):
    """One line for each file that includes itself through others."""
    graph = {}
    for includer, _, _, name in includes(src):
        included = resolve(src, includer, name)
        if included and included != includer:
            graph.setdefault(includer, set()).add(included)
    found, done = [], set()

    def walk(node, path):
        if node in path:
            found.append("include cycle: " + " -> ".join(path[path.index(node):] + [node]))
        elif node not in done:
            for target in sorted(graph.get(node, ())):
                walk(target, path + [node])
            done.add(node)

    for node in sorted(graph):
        walk(node, [])
    return found


def may_link(target, library):
    """Of libraries: trace_format is all of trace but the recorder, which alone needs kernels."""
    if target == "trace":
        return library in ALLOWED["trace"] | {"trace_format"}
    if target == "trace_format":
        return library in ALLOWED["trace"] - {"kernels"}
    if target in INSTRUMENT:
        return library in ALLOWED[target] - {"trace"} | {"trace_format"}
    return library in ALLOWED[target] | {"trace_format"}


def link_violations(root):
    """The same rule for the libraries that the build files link."""
    found = []
    libraries = set(ALLOWED) | {"trace_format"}
    build_files = [p for folder in ("src", "tests", "bench", "examples")
                   for p in sorted((root / folder).rglob("CMakeLists.txt"))]
    for path in build_files:
        text = re.sub(r"#[^\n]*", "", path.read_text(encoding="utf-8"))
        for command, arguments in COMMAND.findall(text):
            target, *words = arguments.split()
            linked = [w for w in words if w in libraries and w != target]
            for library in linked:
                where = f"{path.relative_to(root).as_posix()}: {target}"
                if command == "samestep_library" and target in libraries:
                    if not may_link(target, library):
                        found.append(f"{where} may not link {library}")
                elif library == "faults" and command == "target_link_libraries":
                    if not FAULTY_PROGRAMS.match(target):
                        found.append(f"{where} may not link faults: only tests and samestep-faulty do")
    return found


class Layers(unittest.TestCase):
    def test_includes_point_downwards(self):
        self.assertTrue(source_files(ROOT / "src"), "no sources found: the test looks in the wrong place")
        self.assertEqual([], include_violations(ROOT / "src"))

    def test_no_include_cycles(self):
        self.assertEqual([], include_cycles(ROOT / "src"))

    def test_libraries_link_downwards(self):
        self.assertEqual([], link_violations(ROOT))


class NegativeControls(unittest.TestCase):
    """A tree with a planted violation must be found out."""

    def tree(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        return root

    def violations(self, files):
        return include_violations(self.tree({f"src/{name}": text for name, text in files.items()}) / "src")

    def test_downward_includes_pass(self):
        self.assertEqual([], self.violations({
            "base/a.h": "#include <vector>\n",
            "kernels/call.h": '#include "base/a.h"\n',
            "kernels/linear/linear.cc": '#include "kernels/call.h"\n#include "hwy/highway.h"\n',
            "trace/event.cc": '#include "kernels/call.h"\n',
            "trace/recorder/r.cc": '#include "kernels/registry.h"\n',
            "kernels/registry.h": '#include "kernels/call.h"\n',
            "locate/compare.cc": '#include "trace/event.h"\n',
            "trace/event.h": "",
            "faults/plant.h": "",
            "train/loop_test.cc": '#include "faults/plant.h"\n'}))

    def test_upward_include_is_found(self):
        self.assertEqual(["base/a.cc:2: base may not include train/loop.h"], self.violations({
            "base/a.cc": '#include <vector>\n#include "train/loop.h"\n', "train/loop.h": ""}))

    def test_sibling_include_is_found(self):
        self.assertEqual(["data/a.cc:1: data may not include recipe/recipe.h"], self.violations({
            "data/a.cc": '#include "recipe/recipe.h"\n', "recipe/recipe.h": ""}))

    def test_trace_knows_no_kernel_but_the_observer(self):
        self.assertEqual(["trace/a.cc:1: trace may not include kernels/registry.h"], self.violations({
            "trace/a.cc": '#include "kernels/registry.h"\n', "kernels/registry.h": ""}))
        self.assertEqual(["kernels/call.h:1: kernels may not include kernels/registry.h"], self.violations({
            "kernels/call.h": '#include "kernels/registry.h"\n', "kernels/registry.h": ""}))

    def test_the_instrument_knows_no_kernel_and_no_model(self):
        self.assertEqual(["locate/a.cc:1: locate may not include kernels/call.h",
                          "locate/a.cc:2: locate may not include model/m.h"], self.violations({
            "locate/a.cc": '#include "kernels/call.h"\n#include "model/m.h"\n',
            "kernels/call.h": "", "model/m.h": ""}))

    def test_faults_outside_of_tests_are_found(self):
        self.assertEqual(["cli/a.cc:1: cli may not include faults/plant.h"], self.violations({
            "cli/a.cc": '#include "faults/plant.h"\n', "faults/plant.h": ""}))

    def test_wrong_links_are_found(self):
        root = self.tree({
            "src/cli/CMakeLists.txt": "target_link_libraries(samestep PRIVATE cli faults)\n"
                                      "target_link_libraries(samestep-faulty PRIVATE cli faults)\n",
            "src/base/CMakeLists.txt": "samestep_library(base DEPS fmt::fmt train)  # faults\n"
                                       "samestep_tests(base DEPS base faults)\n",
            "src/locate/CMakeLists.txt": "samestep_library(locate DEPS trace_format trace)\n",
            "src/trace/CMakeLists.txt": "samestep_library(trace_format DEPS fingerprint kernels)\n"
                                        "samestep_library(trace DEPS trace_format kernels)\n"})
        self.assertEqual([
            "src/base/CMakeLists.txt: base may not link train",
            "src/cli/CMakeLists.txt: samestep may not link faults: only tests and samestep-faulty do",
            "src/locate/CMakeLists.txt: locate may not link trace",
            "src/trace/CMakeLists.txt: trace_format may not link kernels",
        ], link_violations(root))

    def test_strays_and_missing_headers_are_found(self):
        self.assertEqual(["stray.cc: stands in no known folder of src/",
                          "utils/a.h: stands in no known folder of src/"],
                         self.violations({"stray.cc": "", "utils/a.h": ""}))
        self.assertEqual(["base/a.cc:1: includes base/gone.h, which does not exist"],
                         self.violations({"base/a.cc": '#include "base/gone.h"\n'}))

    def test_cycle_is_found(self):
        root = self.tree({"src/base/a.h": '#include "base/b.h"\n', "src/base/b.h": '#include "b2.h"\n',
                          "src/base/b2.h": '#include "base/a.h"\n'})
        self.assertEqual(["include cycle: base/a.h -> base/b.h -> base/b2.h -> base/a.h"],
                         include_cycles(root / "src"))


if __name__ == "__main__":
    sys.exit(unittest.main())
