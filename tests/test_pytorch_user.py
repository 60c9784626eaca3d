"""The first lines that a PyTorch user types: a model is an `nn.Module` with the usual names."""

from __future__ import annotations

import copy
import inspect
import io
import operator
import pickle

import pytest
import torch
import torch.distributed as dist
import transformers
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import glassformer as gf

TEXTS = ["Once upon a time", "A cat"]
GPT2 = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 8, "vocab_size": 9}
T5 = {"d_model": 8, "d_ff": 8, "num_layers": 1, "num_heads": 2, "d_kv": 4, "vocab_size": 9}
VIT = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
TRANSFO_XL = {"vocab_size": 40, "cutoffs": [10, 20], "d_model": 8, "d_embed": 8, "d_inner": 8,
              "n_head": 2, "d_head": 4, "n_layer": 1, "mem_len": 4, "div_val": 2}  # fmt: skip
TWO = {"vocab_size": 40, "decoder_vocab_size": 50, "share_encoder_decoder_embeddings": False,
       "d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
       "decoder_attention_heads": 2, "pad_token_id": 0}  # fmt: skip


@pytest.fixture(scope="module")
def shipped():
    return gf.load("zoo:stories")


@pytest.fixture
def model(shipped):
    return copy.deepcopy(shipped)


@pytest.fixture
def inputs(model):
    return model.tokenizer(TEXTS, padding=True, return_tensors="pt")


def labels_of(inputs):
    return inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)


def test_from_pretrained_is_a_module_with_a_device_a_dtype_and_parameters():
    model = gf.Model.from_pretrained("zoo:stories")
    assert isinstance(model, nn.Module) and not model.training
    assert (model.device, model.dtype) == (torch.device("cpu"), torch.float32)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert model.num_parameters() == model.num_parameters(only_trainable=True) == count
    assert model.to(torch.float64).dtype == torch.float64
    assert model.train().training and not model.eval().training
    assert repr(model).startswith(f"{model.architecture}(\n  {count:,} parameters\n  (decoder):")


def test_a_call_returns_logits_a_loss_and_what_was_asked_for(model, inputs):
    output = model(**inputs, labels=labels_of(inputs), output_hidden_states=True,
                   output_attentions=True)  # fmt: skip
    batch, length = inputs["input_ids"].shape
    layers = len(model.spec.decoder.order)
    assert output.logits.shape == (batch, length, len(model.tokenizer))
    assert output.last_hidden_state.shape[:2] == (batch, length)
    assert len(output.hidden_states) == layers + 1 and len(output.attentions) == layers
    assert torch.equal(output.hidden_states[-1], output.last_hidden_state)
    assert output["logits"] is output.logits and output[0] is output.loss
    assert "loss" in output and "loss" not in model(**inputs)
    predicted = output.logits[:, :-1].flatten(0, 1)
    expected = nn.functional.cross_entropy(predicted, labels_of(inputs)[:, 1:].flatten())
    assert torch.allclose(output.loss, expected)


def test_forward_has_few_parameters_with_the_names_of_the_reference():
    ours = list(inspect.signature(gf.Model.forward).parameters)[1:]
    classes = ("GPT2LMHeadModel", "T5ForConditionalGeneration", "ViTForImageClassification")
    theirs = {"output_hidden_states", "output_attentions"}  # among the reference's **kwargs
    for name in (*classes, "WhisperForConditionalGeneration"):
        theirs |= set(inspect.signature(getattr(transformers, name).forward).parameters)
    assert len(ours) <= 18
    assert set(ours) - theirs == {"tap", "options"}


def test_an_output_is_used_as_a_tuple_or_a_dict(model, inputs):
    output = model(**inputs, labels=labels_of(inputs))
    loss, logits = output[:2]
    assert loss is output.loss and logits is output.logits is output["logits"]
    assert (len(output), list(output)) == (len(output.to_tuple()), output.keys())
    assert list(dict(**output)) == ["loss", "logits", "last_hidden_state"]
    assert output.get("logits") is logits and output.get("attentions", 0) == 0
    assert all(map(operator.is_, output.values(), output.to_tuple()))


def test_an_unknown_argument_is_named(model, inputs):
    with pytest.raises(TypeError, match="unexpected keyword argument 'attn_mask'"):
        model(inputs["input_ids"], attn_mask=inputs["attention_mask"])
    with pytest.raises(gf.InputError, match="reads input_ids or inputs_embeds, not pixel_values"):
        model(pixel_values=torch.zeros(1, 3, 8, 8))
    with pytest.raises(gf.InputError, match="Give the model its input as `input_ids`"):
        model()


def test_an_image_model_names_its_own_input():
    model = gf.create("vit-base-patch16-224", **VIT)
    with pytest.raises(gf.InputError, match="reads pixel_values, not input_ids"):
        model(torch.zeros(1, 3, 8, 8))


IDS, SHORT = torch.ones(2, 5, dtype=torch.long), torch.ones(2, 4, dtype=torch.long)
WRONG = {
    "input_ids must be a tensor, not list": {"input_ids": [[1, 2]]},
    r"token ids of \[batch, position\], not \[5\]": {"input_ids": IDS[0]},
    r"not \[2, 0\] of torch.int64": {"input_ids": IDS[:, :0]},
    "of torch.float32": {"input_ids": IDS.float()},
    "go from 90000 to 90000, and the table has 8192 rows": {"input_ids": 90000 * IDS},
    r"mask is \[2, 4\], and the tokens are \[2, 5\]": {"input_ids": IDS, "attention_mask": SHORT},
    r"mask is \[1, 5\], and": {"input_ids": IDS, "attention_mask": IDS[0]},
    r"a tensor of \[batch, position\], not \[2, 1, 5, 5\]": {
        "input_ids": IDS,
        "attention_mask": torch.ones(2, 1, 5, 5),
    },
    r"a tensor of \[batch, position\], not list": {
        "input_ids": IDS,
        "attention_mask": [[1] * 5] * 2,
    },
    r"position_ids are \[2, 4\]": {"input_ids": IDS, "position_ids": SHORT},
    "labels must be a tensor, not list": {"input_ids": IDS, "labels": [[1]]},
    "not among the 8192 classes": {"input_ids": IDS, "labels": 90000 * IDS},
    "drop decoder_input_ids": {"input_ids": IDS, "decoder_input_ids": IDS},
    "drop encoder_hidden_states": {"input_ids": IDS, "encoder_hidden_states": torch.ones(2, 5, 8)},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_inputs_get_one_sentence(shipped, message):
    with pytest.raises(gf.InputError, match=message):
        shipped(**WRONG[message])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_ids": [[1]]}, "input_ids must be a tensor, not list"),
        ({"input_ids": IDS, "attention_mask": SHORT}, r"attention_mask is \[2, 4\]"),
    ],
)
def test_wrong_inputs_of_generate_get_one_sentence(shipped, options, message):
    with pytest.raises(gf.InputError, match=message):
        shipped.generate(**options)


def test_embeddings_stand_for_ids(model, inputs):
    vectors = model.get_input_embeddings()(inputs["input_ids"])
    masks = {"attention_mask": inputs["attention_mask"]}
    assert torch.equal(model(inputs_embeds=vectors, **masks).logits, model(**inputs).logits)


def test_the_cache_of_a_call_continues_the_text(model):
    ids = model.tokenizer("Once upon a time there was", return_tensors="pt")["input_ids"]
    whole = model(ids).logits[:, -1]
    begun = model(ids[:, :3], use_cache=True)
    mask = torch.ones_like(ids)  # of all tokens, as transformers takes it
    rest = model(ids[:, 3:], mask, past_key_values=begun.past_key_values)
    assert torch.allclose(rest.logits[:, -1], whole, atol=1e-5)


def test_generate_takes_what_the_tokenizer_returns(model, inputs):
    one = model.tokenizer("Once upon a time", return_tensors="pt")
    found = model.generate(**one, max_new_tokens=5)
    assert found.shape == (1, one["input_ids"].shape[1] + 5)
    assert torch.equal(found[:, :-5], one["input_ids"])
    text = model.generate("Once upon a time", max_new_tokens=5).text
    assert model.tokenizer.decode(found[0]) == "Once upon a time" + text
    several = model.tokenizer(TEXTS, padding=True, padding_side="left", return_tensors="pt")
    batch = model.generate(**several, max_new_tokens=5)
    assert torch.equal(batch[0, -5:], found[0, -5:])


def test_generate_takes_a_tensor_of_ids_as_its_first_argument(model, inputs):
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    found = model.generate(ids, attention_mask=mask, max_new_tokens=5)
    assert torch.equal(found, model.generate(**inputs, max_new_tokens=5))
    assert torch.equal(model.generate(ids[:1], max_new_tokens=3)[:, :-3], ids[:1])
    with pytest.raises(gf.InputError, match="one of prompt, input_ids"):
        model.generate(ids, input_ids=ids)


def test_the_special_token_ids_of_a_tokenizer(model):
    tokenizer = model.tokenizer
    assert tokenizer.bos_token_id == tokenizer.eos_token_id == tokenizer.id("<s>")
    assert tokenizer.pad_token_id is None and tokenizer.mask_token_id is None


def test_a_decoder_has_no_encoder_to_run(model, inputs):
    with pytest.raises(gf.UnsupportedError, match="has no encoder"):
        model.encode(inputs["input_ids"])


def test_an_encoder_decoder_reads_input_ids_with_its_encoder():
    model = gf.load("zoo:translator")
    inputs = model.tokenizer("je suis étudiant", return_tensors="pt")
    target = model.tokenizer("I am a student.", return_tensors="pt")["input_ids"]
    output = model(**inputs, labels=target)
    start = torch.tensor([[model.spec.tokens.start]])
    shifted = torch.cat((start, target[:, :-1]), 1)
    assert torch.equal(output.logits, model(**inputs, decoder_input_ids=shifted).logits)
    expected = nn.functional.cross_entropy(output.logits[0], target[0])
    assert torch.allclose(output.loss, expected)
    memory = output.encoder_last_hidden_state
    again = model(encoder_hidden_states=memory, decoder_input_ids=shifted)
    assert torch.equal(again.logits, output.logits)
    with pytest.raises(gf.InputError, match="decoder_input_ids"):
        model(**inputs)
    assert model.generate(**inputs, max_new_tokens=4)[0, 0] == start
    with pytest.raises(gf.InputError, match="not both"):
        model(**inputs, encoder_hidden_states=memory, decoder_input_ids=shifted)


def test_a_tokenizer_truncates_to_the_context_of_its_model(model):
    context = model.spec.decoder.context_length
    long = " ".join(["time"] * (context + 1))
    assert model.tokenizer.max_length is None
    ids = model.tokenizer([long, "Hi"], padding=True, truncation=True, return_tensors="pt")
    assert ids["input_ids"].shape == (2, context)
    assert model(**ids).logits.shape[:2] == (2, context)


def test_a_training_loop_of_ones_own(model, inputs):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    losses = []
    for _ in range(4):
        loss = model(**inputs, labels=labels_of(inputs)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_gradient_checkpointing_gives_the_same_gradients(model, inputs):
    found = []
    for enabled in (False, True):
        copied = copy.deepcopy(model).train()
        if enabled:
            copied.gradient_checkpointing_enable()
        copied(**inputs, labels=labels_of(inputs)).loss.backward()
        found.append([parameter.grad for parameter in copied.parameters()])
    for plain, checkpointed in zip(*found, strict=True):
        assert torch.equal(plain, checkpointed)
    copied.gradient_checkpointing_disable()
    assert all(stack.checkpointing is None for stack in copied.stacks)


def test_forward_hooks_and_state_dicts(model, inputs):
    seen = []
    handle = model.decoder.blocks[0].register_forward_hook(lambda *given: seen.append(given[2]))
    outer = model.register_forward_hook(lambda module, args, output: seen.append(output))
    output = model(**inputs)
    handle.remove(), outer.remove()
    assert torch.equal(seen[0], model(**inputs, output_hidden_states=True).hidden_states[1])
    assert seen[1] is output
    other = gf.load("zoo:stories")
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(2)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(**inputs).logits, output.logits)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_compute_the_same_and_share_nothing(model, inputs, copied):
    model.generate("Once", max_new_tokens=3)  # leaves caches behind, which are not copied
    other = copied(model)
    assert torch.equal(other(**inputs).logits, model(**inputs).logits)
    assert other.generate("Once", max_new_tokens=3).text
    with torch.no_grad():
        next(other.parameters()).zero_()
    assert not torch.equal(other(**inputs).logits, model(**inputs).logits)


def test_a_compiled_model_computes_the_same(model, inputs):
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        assert torch.allclose(compiled(**inputs).logits, model(**inputs).logits, atol=1e-5)


def test_resized_embeddings_keep_their_tokens(model, inputs, tmp_path):
    before, size = model(**inputs).logits, len(model.tokenizer)
    model.resize_token_embeddings(size + 3)
    after = model(**inputs).logits
    assert after.shape[-1] == size + 3 == model.config["vocab_size"]
    assert torch.allclose(after[..., :size], before, atol=1e-5)
    model.save_pretrained(tmp_path)
    assert torch.equal(gf.Model.from_pretrained(tmp_path)(**inputs).logits, after)
    assert model.generate("Once", max_new_tokens=3).text


@pytest.mark.parametrize("name", ["gpt2", "t5-small", "vit-base-patch16-224"])
def test_a_model_with_any_activation_is_pickled(name):
    """GPT-2 has the tanh approximation of GELU, ViT the exact one, T5 ReLU."""
    sizes = {"gpt2": GPT2, "t5-small": T5, "vit-base-patch16-224": VIT}[name]
    model = gf.create(name, seed=1, **sizes)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    again = torch.load(file, weights_only=False)
    for own, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(own, other)


def test_resized_embeddings_of_both_sides_and_of_clusters(tmp_path):
    translator = gf.load("zoo:translator")
    before = translator(IDS, decoder_input_ids=IDS).logits
    size = before.shape[-1]
    translator.heads.requires_grad_(False)
    translator.resize_token_embeddings(size + 2)
    translator.save_pretrained(tmp_path)
    assert not any(p.requires_grad for p in translator.heads.parameters())
    logits = translator(IDS, decoder_input_ids=IDS).logits
    assert torch.allclose(logits[..., :size], before, atol=1e-5)
    reference = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert torch.allclose(reference(IDS, decoder_input_ids=IDS).logits, logits, atol=1e-5)
    clusters = gf.create("transfo-xl-base", seed=1, **TRANSFO_XL)
    clusters.resize_token_embeddings(43)
    assert clusters(IDS).logits.shape == (2, 5, 43)
    two = gf.create("transformer-base", seed=1, **TWO)
    with pytest.raises(gf.UnsupportedError, match="one vocabulary can be resized"):
        two.resize_token_embeddings(50)


@pytest.fixture
def process_group(tmp_path):
    dist.init_process_group("gloo", f"file://{tmp_path}/group", world_size=1, rank=0)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("wrap", [DistributedDataParallel, fully_shard], ids=["ddp", "fsdp"])
def test_a_wrapped_model_trains(model, inputs, wrap):
    plain = copy.deepcopy(model).train()
    wrapped = wrap(model.train())
    for one in (plain, wrapped):
        one(**inputs, labels=labels_of(inputs)).loss.backward()
    for own, other in zip(plain.parameters(), model.parameters(), strict=True):
        found = other.grad.full_tensor() if hasattr(other.grad, "full_tensor") else other.grad
        assert torch.allclose(own.grad, found, atol=1e-6)
