"""Circuits from the weights: singular vectors and composition, compared with plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import small
import torch
from family_models import FAMILIES, case_of

from glassformer import GlassformerError, inside
from glassformer.core.block import Block
from glassformer.inside.weights.factors import factors
from glassformer.spec import AttentionSpec


def array(x) -> np.ndarray:
    return x.detach().double().numpy()


def heads_of_gpt2(model, layer):
    """W_Q, W_K, W_V of [width, dim] for rows, W_O of [dim, width], as TransformerLens has them with
    the norm folded in: scaled, and without the mean."""
    block = model.decoder.blocks[layer]
    gamma = array(block.attention_norm.weight)
    weights = array(block.attention.qkv.weight).T * gamma[:, None]  # [width, 3 * width]
    weights -= weights.mean(0)
    out = array(block.attention.out.weight).T
    out = out - out.mean(1, keepdims=True)
    q, k, v = np.split(weights, 3, 1)
    return [
        [part[:, 8 * h : 8 * h + 8] for part in (q, k, v)] + [out[8 * h : 8 * h + 8]]
        for h in range(4)
    ]


@pytest.mark.parametrize("kind", ["q", "k", "v"])
def test_composition_is_that_of_whole_matrices(kind):
    model = small.decoder()
    found = inside.composition(model, kind)
    layers = [heads_of_gpt2(model, layer) for layer in range(3)]
    for a in range(3):
        for b in range(3):
            for i, (_, _, v, o) in enumerate(layers[a]):
                for j, (q, k, w, p) in enumerate(layers[b]):
                    right = {"q": q @ k.T, "k": k @ q.T, "v": w @ p}[kind]
                    left = v @ o
                    wanted = np.linalg.norm(left @ right)
                    wanted /= np.linalg.norm(left) * np.linalg.norm(right)
                    got = found[(a, i), (b, j)]
                    assert got == (pytest.approx(wanted, rel=1e-4) if a < b else 0.0)
    (one, other, score), *_ = found.top(1)
    assert score == found[one, other] == float(found.scores.array.max()) and one[0] < other[0]


def test_directions_of_a_head_and_of_neurons_are_singular_vectors():
    model = small.decoder()
    q, k, v, o = heads_of_gpt2(model, 1)[2]
    block = model.decoder.blocks[1]
    down = array(block.ffn.down.weight).T
    up = array(block.ffn.up.weight).T * array(block.ffn_norm.weight)[:, None]
    wanted = {
        "ov": v @ o,
        "qk": q @ k.T,
        "out": down - down.mean(1, keepdims=True),
        "in": up - up.mean(0),
    }
    for which, matrix in wanted.items():
        found = inside.circuit(model, 1, 2 if which in ("ov", "qk") else None, which, count=4)
        left, strengths, right = np.linalg.svd(matrix)
        np.testing.assert_allclose(found.strengths.numpy(), strengths[:4], rtol=1e-4)
        sides = {"ov": ("reads", "writes"), "qk": ("asks", "is asked"), "in": ("reads", None)}
        before, behind = sides.get(which, (None, "writes"))
        for name, vectors in ((before, left.T), (behind, right)):
            if name is not None:
                along = np.abs((found[name].vectors.numpy() * vectors[:4]).sum(1))
                np.testing.assert_allclose(along, 1.0, atol=1e-3)


def test_words_at_the_ends_are_those_of_head_and_embedding():
    model = small.decoder()
    found = inside.circuit(model, 2, 1, "ov", count=3, top=5)
    gamma = array(model.decoder.final_norm.weight)
    head, table = (
        array(model.heads["lm"].out.weight),
        array(model.decoder.embed.token.weight),
    )
    for rank in range(3):
        for name, values in (
            ("writes", head @ (found["writes"].vectors.numpy()[rank].astype(float) * gamma)),
            ("reads", table @ found["reads"].vectors.numpy()[rank].astype(float)),
        ):
            toward, away = found[name].words[rank]
            assert [one.id for one in toward] == np.argsort(-values)[:5].tolist()
            assert [one.id for one in away] == np.argsort(values)[:5].tolist()
            assert toward[0].value == pytest.approx(values.max(), abs=1e-4)
            assert toward[0].text == model.look([toward[0].id]).tokens[0].text
        writes = head @ (found["writes"].vectors.numpy()[rank].astype(float) * gamma)
        assert writes.max() >= -writes.min()


def test_a_head_carries_what_its_matrices_say():
    """OV of a head that looks at one token alone is what it writes of it, biases aside."""
    for model in (small.decoder(), small.grouped(), small.encoder(), small.both()):
        with torch.no_grad():
            for name, tensor in model.named_parameters():
                if name.endswith("bias"):
                    tensor.zero_()
        target = ("a",) if model.spec.encoder and model.spec.decoder else ()
        view = model.look([5], *target)
        own = factors(model, 1)
        stack = getattr(model, view.stack)
        block = stack.blocks[1]
        normed = _unscaled(block, view.residual_before[1].array[:1])
        for head in range(len(own.q)):
            z = view.z[1].array[head, 0]
            torch.testing.assert_close(own.v[head] @ normed[0], z, atol=1e-4, rtol=1e-3)


def _unscaled(block, x):
    """What a norm makes of x before its scale, which the factors hold."""
    if block.spec.placement == "post":
        return x
    if block.spec.norm.kind == "layer":
        x = x - x.mean(-1, keepdim=True)
    return x / (x.square().mean(-1, keepdim=True) + block.spec.norm.eps).sqrt()


def test_cross_attention_reads_the_encoder_and_writes_to_the_decoder():
    model = small.both()
    found = inside.circuit(model, 1, 3, "ov", cross=True, count=2)
    block = model.decoder.blocks[1]
    value = array(block.cross.kv.weight)[32 + 24 : 32 + 32]
    out = array(block.cross.out.weight)[:, 24:32]
    strengths = np.linalg.svd((out - out.mean(0)) @ value)[1]
    np.testing.assert_allclose(found.strengths.numpy(), strengths[:2], rtol=1e-4)
    assert set(found.ends) == {"writes", "reads"}


@pytest.mark.parametrize("name", FAMILIES, ids=str)
def test_every_family_tells_its_circuits(name):
    model = case_of(name).model
    stack = model.decoder if model.decoder is not None else model.encoder
    layers = [at for at, i in enumerate(stack.spec.order) if isinstance(stack.blocks[i], Block)]
    if not layers:
        with pytest.raises(GlassformerError, match="no attention heads"):
            inside.composition(model)
        return
    specs: dict[int, AttentionSpec] = {
        at: stack.blocks[stack.spec.order[at]].spec.attention for at in layers
    }
    for layer in [at for at in layers if specs[at].compression_factor is not None]:
        with pytest.raises(GlassformerError, match="no circuit"):
            inside.circuit(model, layer, 0)
        layers.remove(layer)
    spec = specs[layers[-1]]
    found = inside.composition(model, "v")
    assert found.scores.array.isfinite().all() and float(found.scores.array.max()) <= 1.0
    if model.spec.last_stack.embed.__class__.__name__ == "Embed":
        for which in ("ov", "qk") if spec.score == "dot" else ("ov",):
            told = inside.circuit(model, layers[-1], 0, which, count=2)
            assert all(len(end.words) == 2 for end in told.ends.values())
            assert "head 0" in told._repr_html_()


def test_bad_input_is_one_clear_sentence():
    model = small.decoder()
    for wrong, said in (
        (lambda: inside.circuit(model, 0, 0, "vo"), "one of ov"),
        (lambda: inside.circuit(model, 0), "give the head"),
        (lambda: inside.circuit(model, 0, 9), "no head 9"),
        (lambda: inside.circuit(model, 9, 0), "no layer 9"),
        (lambda: inside.circuit(model, 0, 0, "out"), "leave out the head"),
        (lambda: inside.circuit(model, 0, None, "gate"), "no gate"),
        (lambda: inside.circuit(model, 0, 0, cross=True), "no cross-attention"),
        (lambda: inside.circuit(model, 0, 0)["asks"], "only writes, reads"),
        (lambda: inside.composition(model, "z"), "q, k, v"),
        (lambda: inside.composition(model, "q", "encoder"), "no stack"),
        (lambda: inside.composition(model)[(0, 9), (1, 1)], "no head"),
    ):
        with pytest.raises(GlassformerError, match=said):
            wrong()
