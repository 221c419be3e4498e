"""Loss and gradients against Hugging Face transformers on PyTorch, from one safetensors file, to fp32 accuracy; and a
trained model, exported, loaded by transformers."""
import json
import math

import pytest

torch = pytest.importorskip("torch", reason="install it with: scripts/setup --python")
transformers = pytest.importorskip("transformers", reason="install it with: scripts/setup --python")
safetensors_torch = pytest.importorskip("safetensors.torch", reason="install it with: scripts/setup --python")

SEQUENCE, SAMPLES = 70, 3

LLAMA = """
[model]
family = "llama"
vocab = 211
hidden = 64
layers = 3
heads = 4
kv_heads = 2
intermediate = 96
sequence = 70
norm_eps = 1e-5
rope_base = 10000.0
tied_output = {tied}
"""
GPT2 = """
[model]
family = "gpt2"
vocab = 211
hidden = 64
layers = 3
heads = 4
intermediate = 256
sequence = 70
norm_eps = 1e-5
activation = "{activation}"
tied_output = true
"""
REST = """
[data]
path = "none"
[train]
steps = 1
global_batch = 3
[optimizer]
lr = 1e-3
"""


def llama(tied):
    config = transformers.LlamaConfig(
        vocab_size=211, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=SEQUENCE, rms_norm_eps=1e-5, rope_theta=10000.0,
        tie_word_embeddings=tied, attn_implementation="eager")
    return transformers.LlamaForCausalLM(config), LLAMA.format(tied=str(tied).lower()) + REST


def gpt2(activation, name):
    config = transformers.GPT2Config(
        vocab_size=211, n_positions=SEQUENCE, n_embd=64, n_layer=3, n_head=4, layer_norm_epsilon=1e-5,
        activation_function=name, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="eager")
    return transformers.GPT2LMHeadModel(config), GPT2.format(activation=activation) + REST


CASES = {
    "llama": lambda: llama(False),
    "llama_tied": lambda: llama(True),
    "gpt2_tanh": lambda: gpt2("gelu_tanh", "gelu_new"),
    "gpt2_erf": lambda: gpt2("gelu", "gelu"),
}


def loss_of(model, tokens):
    logits = model(tokens[:, :-1]).logits.double()
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))


def randomise(model):
    """Weights large enough that every path of the model matters; gains and biases too."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            norm = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(1 + 0.2 * noise if norm else 0.1 * noise)


@pytest.mark.parametrize("case", sorted(CASES))
def test_loss_and_gradients_agree(case, samestep, tmp_path):
    torch.manual_seed(1)
    model, recipe = CASES[case]()
    randomise(model)
    tokens = torch.randint(0, 211, (SAMPLES, SEQUENCE + 1), generator=torch.Generator().manual_seed(2))
    (tmp_path / "recipe.toml").write_text(recipe)
    model.save_pretrained(tmp_path / "hf", safe_serialization=True)
    safetensors_torch.save_file({"tokens": tokens}, tmp_path / "tokens.safetensors")

    result = json.loads(samestep(
        "gradients", tmp_path / "recipe.toml", "--weights", tmp_path / "hf" / "model.safetensors", "--tokens",
        tmp_path / "tokens.safetensors", "-o", tmp_path / "gradients.safetensors", "--json").stdout)

    # Binary64 stands for the exact value; ours and PyTorch's binary32 are measured against it.
    exact, _ = CASES[case]()
    exact.load_state_dict(model.state_dict())
    exact = exact.double()
    exact_loss = loss_of(exact, tokens)
    exact_loss.backward()
    loss = loss_of(model, tokens)
    loss.backward()
    assert abs(result["loss"] - exact_loss.item()) <= 4 * abs(loss.item() - exact_loss.item()) + 1e-6

    ours = safetensors_torch.load_file(tmp_path / "gradients.safetensors")
    truth = {name: p.grad for name, p in exact.named_parameters()}
    theirs = {name: p.grad for name, p in model.named_parameters()}
    assert set(ours) == set(truth)
    for name, gradient in sorted(truth.items()):
        scale = gradient.norm().item()
        our_error = (ours[name].double() - gradient).norm().item()
        their_error = (theirs[name].double() - gradient).norm().item()
        assert our_error <= 4 * their_error + 1e-6 * scale, f"{name}: {our_error} against {their_error} of {scale}"


def test_exported_model_loads_with_the_same_loss(samestep, trained_run, tmp_path):
    run, metrics = trained_run
    samestep("export", run, "-o", tmp_path / "out")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert model.config.model_type == "llama"
    text = json.loads(samestep("generate", run, "--prompt", "And God", "--tokens", 12, "--temperature", 0,
                               "--json").stdout)["text"]
    ids = torch.tensor([list(b"And God")])
    for _ in range(12):
        window = ids[:, -model.config.max_position_embeddings:]
        ids = torch.cat([ids, model(window).logits[:, -1:].argmax(-1)], 1)
    assert bytes(ids[0].tolist()).decode("utf-8", "replace") == text
    assert math.isfinite(metrics[-1]["loss"])
