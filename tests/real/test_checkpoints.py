"""Published weights: the numbers, tokens and texts of the reference, on real models."""

import struct
from itertools import pairwise

import numpy as np
import pytest
import torch
import transformers

import glassformer as gf
from glassformer.check import TEXTS, check

pytestmark = pytest.mark.real


def largest(a, b):
    return float((a - b).abs().max())


def ids_of(tokenizer, texts):
    return [tokenizer.encode(text).ids for text in texts]


@torch.no_grad()
def test_minilm_embeds_sentences(real):
    """MiniLM-L6: hidden states, tokens, and the mean of a sentence as its vector."""
    folder = real("minilm")
    assert check(folder).equal
    model = gf.load(folder)
    theirs = transformers.BertModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = ["A dog runs over the grass.", "The puppy is running in the meadow.",
             "Interest rates rose again in March.", *TEXTS]  # fmt: skip
    assert ids_of(model.tokenizer, texts) == tokenizer(texts)["input_ids"]
    ours, given = model.tokenizer.batch(texts), tokenizer(texts, padding=True, return_tensors="pt")
    found = mean(model(ours.tokens, attention_mask=ours.mask).last_hidden_state, ours.mask)
    expected = mean(theirs(**given).last_hidden_state, given["attention_mask"])
    assert largest(found, expected) <= 1e-5
    near, far = found[0] @ found[1], found[0] @ found[2]
    assert near > 0.5 > far


def mean(hidden, mask):
    mask = mask[..., None].float()
    return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)


# An esterification, in SMILES, cut as the authors cut it.
REACTION = [*"CC(=O)O.OCC", ">>", *"CC(=O)OCC"]


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        ("bert_pretrained", "BertForPreTraining"),
        ("bert_ft", "BertModel"),
        ("bert_ft_10k_25s", "BertForSequenceClassification"),
    ],
)
@torch.no_grad()
def test_rxnfp_reads_chemistry(real, name, architecture):
    """A BERT of 12 layers of 256 from pytorch_model.bin, with a config of the year 2019."""
    folder = real("rxnfp").with_name(name)
    model = gf.load(folder, architecture=architecture)
    theirs = getattr(transformers, architecture).from_pretrained(folder).eval()
    tokens = reaction_ids(folder, REACTION)
    out, expected = model(tokens), theirs(tokens, output_hidden_states=True)
    assert largest(out.last_hidden_state, expected.hidden_states[-1]) <= 1e-5
    named = {"BertForPreTraining": "prediction_logits", "BertForSequenceClassification": "logits"}
    if architecture in named:
        assert largest(out.logits, expected[named[architecture]]) <= 1e-5
    texts = ["C c 1 c c c ( [N+] ) n 1", "Br . [Na+] ~ [OH-]", "[MASK] O"]
    tokenizer = transformers.BertTokenizer.from_pretrained(folder)
    assert ids_of(model.tokenizer, texts) == tokenizer(texts)["input_ids"]


@torch.no_grad()
def test_rxnfp_fills_in_atoms(real):
    folder = real("rxnfp")
    model = gf.load(folder, architecture="BertForPreTraining")
    theirs = transformers.BertForPreTraining.from_pretrained(folder).eval()
    words = (folder / "vocab.txt").read_text("utf-8").split("\n")
    right = 0
    for place, atom in enumerate(REACTION):
        masked = [*REACTION[:place], "[MASK]", *REACTION[place + 1 :]]
        tokens = reaction_ids(folder, masked)
        ours, expected = model(tokens).logits, theirs(tokens).prediction_logits
        assert largest(ours, expected) <= 1e-5
        found = ours[0, 1 + place].topk(5).indices
        assert found.tolist() == expected[0, 1 + place].topk(5).indices.tolist()
        right += words[int(found[0])] == atom
    assert right > len(REACTION) * 0.7


def reaction_ids(folder, words):
    known = (folder / "vocab.txt").read_text("utf-8").split("\n")
    return torch.tensor([[known.index(word) for word in ("[CLS]", *words, "[SEP]")]])


@torch.no_grad()
def test_microformer_writes_on(real):
    """A GPT-2 of 8 layers of 256 over microbes: ids, since its tokenizer is a pickle."""
    folder = real("microformer")
    model = gf.load(folder)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    tokens = torch.tensor([[2, 57, 290, 1031, 44, 6200]])
    assert largest(model(tokens).logits, theirs(tokens).logits) <= 1e-5
    same_ids(model, theirs, tokens, 40)


def same_ids(model, theirs, tokens, count):
    """Greedy, with the cache of either."""
    expected = theirs.generate(tokens, do_sample=False, max_new_tokens=count)[0].tolist()
    found = model.generate(tokens[0].tolist(), max_new_tokens=count, do_sample=False)
    assert [*tokens[0].tolist(), *found.tokens] == expected
    return found


@torch.no_grad()
def test_smollm2_knows_a_capital(real):
    """SmolLM2-135M-Instruct from a GGUF file in Q4_1, which the reference reads by itself."""
    path = real("smollm2")
    model = gf.load(path)
    place = {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name}
    theirs = transformers.LlamaForCausalLM.from_pretrained(**place, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(**place)
    question = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    texts = [question, "In 1969, 3 men", *TEXTS]
    ids = ids_of(model.tokenizer, texts)
    assert ids == [tokenizer(text)["input_ids"] for text in texts]
    tokens = torch.tensor(ids[:1])
    assert largest(model(tokens).logits, theirs(tokens).logits) <= 1e-5
    assert same_ids(model, theirs, tokens, 30).text == "The capital of France is Paris."


@torch.no_grad()
def test_stories15m_tells_a_story(real):
    """llama2.c's own file and tokenizer, beside the reference's class with tensors cut out of the
    file by hand, and beside llama2.c's way of merging pieces."""
    path = real("stories15m")
    model = gf.load(path)
    theirs = stories(path)
    pieces = vocabulary(path.with_name("tokenizer.bin"))
    texts = ["Once upon a time, there was a tiny dragon", "Lily said: \"Hi!\"\n\nTom  ran.",
             *TEXTS]  # fmt: skip
    ids = ids_of(model.tokenizer, texts)
    assert ids == [merged(text, pieces) for text in texts]
    for row in ids:
        tokens = torch.tensor([row])
        assert largest(model(tokens).logits, theirs(tokens).logits) <= 1e-5
    told = same_ids(model, theirs, torch.tensor(ids[:1]), 60)
    assert "dragon" in told.text or "named" in told.text
    spelled = b"".join(pieces[i][0] for i in told.tokens).decode()
    assert told.text.strip() == spelled.strip()


def stories(path):
    """6 layers of 288 with 6 heads, in the order of llama2.c's first format."""
    data = np.fromfile(path, np.float32, offset=28)
    at = 0

    def take(*shape):
        nonlocal at
        at += int(np.prod(shape))
        return torch.from_numpy(data[at - int(np.prod(shape)) : at].reshape(shape).copy())

    def turned(weights):
        return weights.view(6, 6, 24, 2, 288).transpose(2, 3).reshape(6, 288, 288)

    state = {"model.embed_tokens.weight": take(32000, 288)}
    parts = {
        "input_layernorm": take(6, 288),
        "self_attn.q_proj": turned(take(6, 288, 288)),
        "self_attn.k_proj": turned(take(6, 288, 288)),
        "self_attn.v_proj": take(6, 288, 288),
        "self_attn.o_proj": take(6, 288, 288),
        "post_attention_layernorm": take(6, 288),
        "mlp.gate_proj": take(6, 768, 288),
        "mlp.down_proj": take(6, 288, 768),
        "mlp.up_proj": take(6, 768, 288),
    }
    state |= {f"model.layers.{i}.{n}.weight": t[i] for n, t in parts.items() for i in range(6)}
    state["model.norm.weight"] = take(288)
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    config = transformers.LlamaConfig(
        hidden_size=288, intermediate_size=768, num_hidden_layers=6, num_attention_heads=6,
        vocab_size=32000, max_position_embeddings=256, rms_norm_eps=1e-5, tie_word_embeddings=True,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    model.load_state_dict(state)
    return model


def vocabulary(path):
    """Bytes and score of every token."""
    data, at, found = path.read_bytes(), 4, []
    while at < len(data):
        score, length = struct.unpack_from("<fi", data, at)
        found.append((data[at + 8 : at + 8 + length], score))
        at += 8 + length
    return [(bytes([i - 3]), score) if 3 <= i < 259 else (piece, score)
            for i, (piece, score) in enumerate(found)]  # fmt: skip


def merged(text, pieces):
    """Characters, or their bytes, of which the neighbors that make the best piece are joined."""
    known = {piece: i for i, (piece, _) in reversed(list(enumerate(pieces))) if i > 258}
    ids = [1]
    for letter in f" {text}" if text else "":
        byte = letter.encode()
        ids += [known[byte]] if byte in known else [3 + b for b in byte]
    while True:
        pairs = [pieces[a][0] + pieces[b][0] for a, b in pairwise(ids)]
        best = max(
            (i for i, pair in enumerate(pairs) if pair in known and i > 0),
            key=lambda i: (pieces[known[pairs[i]]][1], -i),
            default=None,
        )
        if best is None:
            return ids
        ids[best : best + 2] = [known[pairs[best]]]
