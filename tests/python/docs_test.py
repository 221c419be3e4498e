"""Runs the commands that README and docs show, and compares the output that they promise.

A fenced ```sh block is run with bash in a scratch folder that has the repository's examples/, with the programs
on PATH; the blocks of a page run one after another in one folder. A comment line before a block says otherwise:

    <!-- not run: installs packages -->          the block is not run; the reason is for people
    <!-- output -->                              the ```text block below is what the last block printed;
                                                 "..." in it stands for anything within a line
    <!-- output of scripts/quickstart -->        the ```text block below is build/quickstart/summary.txt
"""

import os
import pathlib
import re
import subprocess

import pytest

from conftest import BINARIES, ROOT

PAGES = sorted([p for p in ROOT.glob("*.md")] + list((ROOT / "docs").rglob("*.md")))
FENCE = re.compile(r"(?:^<!-- *(?P<marker>[^\n]*?) *-->\n+)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SUMMARY = ROOT / "build/quickstart/summary.txt"


def blocks(text):
    """(language, marker, text) of each fenced block."""
    return [(m["language"], m["marker"] or "", m["text"]) for m in FENCE.finditer(text)]


def matches(expected, actual):
    """Whether the output is what a page promises, where "..." stands for anything within a line."""
    pattern = r"[^\n]*".join(re.escape(part) for part in expected.strip().split("..."))
    return re.fullmatch(pattern, actual.strip()) is not None


def run_page(text, folder):
    """Runs a page's blocks; returns the complaints."""
    (folder / "examples").symlink_to(ROOT / "examples")
    environment = dict(os.environ, PATH=f"{BINARIES}:{os.environ['PATH']}")
    output, complaints = "", []
    for language, marker, block in blocks(text):
        if language == "sh" and not marker.startswith("not run:"):
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
            output = done.stdout
            if done.returncode != 0:
                complaints.append(f"exit status {done.returncode} of:\n{block}\n{output}")
        elif language == "text" and marker == "output" and not matches(block, output):
            complaints.append(f"promised:\n{block}\nprinted:\n{output}")
    return complaints


def has_commands(page):
    return any(language == "sh" and not marker.startswith("not run:")
               for language, marker, _ in blocks(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", [p for p in PAGES if has_commands(p)], ids=lambda p: p.relative_to(ROOT).as_posix())
def test_commands(page, tmp_path):
    assert run_page(page.read_text(encoding="utf-8"), tmp_path) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    targets = [t.split("#")[0] for t in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in t]
    assert [t for t in targets if t and not (page.parent / t).exists()] == []


@pytest.mark.parametrize("page, command", [("docs/determinism/op-catalogue.md", ["kernels"]),
                                           ("docs/guide/recipe.md", ["recipe", "docs"])])
def test_generated_pages_are_current(samestep, page, command):
    assert samestep(*command).stdout == (ROOT / page).read_text(encoding="utf-8"), \
        f"run samestep {' '.join(command)} > {page}"


def test_readme_states_what_the_quickstart_prints():
    promised = [text for _, marker, text in blocks((ROOT / "README.md").read_text(encoding="utf-8"))
                if marker == "output of scripts/quickstart"]
    assert len(promised) == 1, "README.md shows the quickstart's summary once"
    if not SUMMARY.exists():
        pytest.skip("scripts/quickstart has not run here")
    assert promised[0].strip() == SUMMARY.read_text(encoding="utf-8").strip()
    finding = [text for _, marker, text in blocks((ROOT / "README.md").read_text(encoding="utf-8"))
               if marker == "output of samestep diff"]
    assert finding[0].strip() in (SUMMARY.parent / "diff.txt").read_text(encoding="utf-8")


def test_promises_that_do_not_hold_are_found(tmp_path):
    assert matches("loss 1.5 in ... s\n", "loss 1.5 in 0.2 s\n")
    assert not matches("loss 1.5 in ... s\n", "loss 1.6 in 0.2 s\n")
    page = "<!-- not run: would fail -->\n```sh\nfalse\n```\n\n```sh\necho one\n```\n<!-- output -->\n```text\ntwo\n```\n"
    assert len(run_page(page, tmp_path)) == 1
