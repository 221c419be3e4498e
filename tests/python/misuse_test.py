"""What is used wrongly or damaged is refused with its exit code: nothing is wrapped, overwritten or aborted."""

import json

import pytest


def test_a_folder_is_no_text(samestep, tmp_path):
    for arguments in ([], ["--json-lines"]):
        assert "is a folder" in samestep("data", "tokenize", tmp_path, *arguments, status=3).stderr


@pytest.mark.parametrize("ids", ["[99999999999999]", "[4294967400]", "[-1]", "[104.0]", '["h"]', "[[104]]", '"hi"', "5"])
def test_only_ids_are_decoded(samestep, ids):
    done = samestep("data", "tokenize", "-", "--json-lines", "--decode", input=f"[104,105]\n{ids}\n", status=2)
    assert json.loads(done.stdout) == "hi"
    assert "-:2: " in done.stderr


def test_lines_of_json_are_not_one_object(samestep):
    samestep("data", "tokenize", "-", "--json-lines", "--json", input='"hi"\n', status=3)


@pytest.mark.parametrize(
    "option",
    ["--temperature=nan", "--temperature=inf", "--temperature=-1", "--seed=-1", "--seed=99999999999999999999", "--top-k=-1"],
)
def test_numbers_out_of_range(samestep, tmp_path, option):
    assert option.split("=")[0] in samestep("generate", tmp_path, option, status=3).stderr
    name, value = option.split("=")[0], "1"
    samestep("generate", tmp_path, f"{name}={value}", status=2)  # only the run is missing


@pytest.mark.parametrize("overwritten", ["recipe", "weights", "tokens"])
def test_gradients_do_not_overwrite_what_they_read(samestep, tmp_path, overwritten):
    for name in ["recipe", "weights", "tokens"]:
        (tmp_path / name).write_text(name)
    (tmp_path / "other").symlink_to(tmp_path / overwritten)
    inputs = [tmp_path / "recipe", "--weights", tmp_path / "weights", "--tokens", tmp_path / "tokens"]
    for output in [tmp_path / overwritten, tmp_path / "." / overwritten, tmp_path / "other"]:
        assert "overwrite" in samestep("gradients", *inputs, "-o", output, status=3).stderr
    assert (tmp_path / overwritten).read_text() == overwritten
