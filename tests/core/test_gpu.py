"""Properties of the core on a GPU (make test-gpu)."""

from __future__ import annotations

import pytest
import tiny
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer import spec
from glassformer.core import ActivationCapture, Cache
from glassformer.core.attention.sdpa import scaled_attention
from glassformer.train.batches.collate import runs_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
POSITIONS = [
    None,
    spec.RotarySpec(dim=8),
    spec.T5BiasSpec(),
    spec.AlibiSpec(),
    spec.ShawSpec(max_distance=3),
    spec.RelativePositionSpec(bidirectional=True),
]


@pytest.mark.parametrize("position", POSITIONS, ids=str)
@pytest.mark.parametrize(
    "pattern", [spec.CAUSAL, spec.FULL, spec.AttentionPattern(left=9, right=0)], ids=str
)
def test_the_same_numbers_as_on_the_cpu(position, pattern):
    torch.backends.cuda.matmul.allow_tf32 = False
    model = tiny.transformer(tiny.encoder(2, position=position, pattern=pattern))
    tokens = tiny.tokens(3, 40)
    mask = torch.arange(40) >= torch.tensor([[0], [7], [39]])
    with torch.no_grad():
        here = model(tokens, attention_mask=mask).logits
        there = model.cuda()(tokens.cuda(), mask.cuda()).logits.cpu()
    assert torch.allclose(here[mask], there[mask], atol=1e-5)


@pytest.mark.parametrize(
    "pattern",
    [
        spec.CAUSAL,
        spec.FULL,
        spec.AttentionPattern(left=5, right=5),
        spec.AttentionPattern(left=4, right=0),
    ],
    ids=str,
)
def test_runs_say_what_masks_and_documents_do(pattern):
    """In bfloat16, gradients included; padding means nothing."""
    model = tiny.transformer(tiny.encoder(2, pattern=pattern)).cuda().bfloat16()
    tokens = tiny.tokens(3, 40).cuda()
    mask = (torch.arange(40) < torch.tensor([[40], [33], [7]])).cuda()
    documents = (torch.arange(40) // 13).expand(3, -1).cuda().masked_fill(~mask, -1)
    for given in ({"attention_mask": mask}, {"attention_mask": mask, "document_ids": documents}):
        runs = runs_of({"input_ids": tokens.cpu(), **{key: x.cpu() for key, x in given.items()}})
        found = []
        for more in ({}, {"cu_seqlens": runs["cu_seqlens"].cuda()}):
            model.zero_grad()
            logits = model(tokens, **given, **more).logits[mask].float()
            logits.square().mean().backward()
            gradient = model.encoder.blocks[0].attention.qkv.weight.grad.float()
            found.append((logits.detach(), gradient.clone()))
        for ours, plain in zip(*found, strict=True):
            assert (ours - plain).norm() < 2e-2 * plain.norm()


@pytest.mark.parametrize("length", [64, 120, 192])
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_where_all_scores_are_low(length, compiled):
    """At 64 and 192 cuDNN's kernel, torch's choice with a mask, gives NaN: pytorch#196678."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, length, 64, device="cuda") / 8 for _ in range(3))
    q[..., 0], k[..., 0] = 1.0, -120.0 * 8  # every score is about -120
    mask = torch.ones(length, length, dtype=torch.bool, device="cuda").tril()
    attend = torch.compile(scaled_attention, fullgraph=True) if compiled else scaled_attention
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        given = [x.to(torch.bfloat16).to(dtype).requires_grad_() for x in (q, k, v)]
        z = attend(*given, mask, scale=1 / 8)
        z.square().sum().backward()
        found.append([x.detach().float() for x in (z, *(x.grad for x in given))])
    for exact, half in zip(*found, strict=True):
        assert torch.isfinite(half).all()
        near = (half - exact)[..., 1:]  # in column 0 great numbers cancel out
        assert near.norm() < 0.1 * exact[..., 1:].norm()


class Asked(TorchDispatchMode):
    """The names of all operations."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.names.add(operation.name())
        return operation(*args, **kwargs or {})


@pytest.mark.parametrize("masked", [False, True])
def test_a_kernel_that_is_ready_for_any_shape(masked):
    """Unlike cuDNN's, which torch would choose by itself."""
    tokens = tiny.tokens(3, 24).cuda()
    mask = torch.arange(24, device="cuda") < 24 - 4 * masked
    attention = spec.AttentionSpec(heads=2, head_dim=64)
    model = tiny.transformer(tiny.decoder(2, attention=attention)).to("cuda", torch.bfloat16)
    with Asked() as asked:
        model(tokens, attention_mask=mask.expand(3, -1) if masked else None).logits.sum().backward()
    kernels = {name for name in asked.names if "_attention" in name}
    assert kernels and not any("cudnn" in name for name in kernels)


@pytest.mark.parametrize(
    "layer",
    [
        spec.RecurrentSpec(width=20),
        spec.RecurrentSpec(width=20, bidirectional=True),
        spec.ConvolutionalSpec(kernel=3, dilation=2, causal=True),
    ],
    ids=str,
)
def test_layers_without_attention_as_on_the_cpu(layer, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    stack = spec.StackSpec(
        width=20, embed=spec.TokenEmbeddingSpec(vocabulary=50), blocks=(layer,) * 2
    )
    model = tiny.transformer(
        spec.ModelSpec(decoder=stack, heads=(tiny.LM,), init=spec.InitSpec(std=0.2))
    )
    tokens, mask = tiny.tokens(4, 6), tiny.SCATTERED
    bidirectional = isinstance(layer, spec.RecurrentSpec) and layer.bidirectional
    caches = (None, None) if bidirectional else (Cache(), Cache())
    with torch.no_grad():
        here = model(tokens, attention_mask=mask, past_key_values=caches[0]).logits
        there = model.cuda()(tokens.cuda(), mask.cuda(), past_key_values=caches[1]).logits.cpu()
    assert torch.allclose(here[mask], there[mask], atol=1e-5)
    model(tokens.cuda(), mask.cuda()).logits.sum().backward()  # also while evaluating
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("position", [None, spec.AlibiSpec()], ids=str)
def test_a_row_with_nothing_to_see_gives_zeros(dtype, position):
    model = tiny.transformer(tiny.decoder(1, position=position)).to("cuda", dtype)
    mask = torch.tensor([[False] * 16, [True] * 16], device="cuda")
    seen = ActivationCapture("*.z")
    out = model(tiny.tokens(2, 16).cuda(), attention_mask=mask, tap=seen)
    assert torch.all(seen["decoder.blocks.0.z"][0] == 0)
    assert torch.isfinite(out.logits).all()
    out.logits[1].float().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_flex_attention_as_the_dense_mask():
    attention = spec.AttentionSpec(heads=2, kv_heads=1, head_dim=16)
    pattern = spec.AttentionPattern(left=100, right=0)
    model = tiny.transformer(tiny.decoder(1, attention=attention, pattern=pattern)).cuda()
    tokens = tiny.tokens(2, 2048).cuda()
    documents = (torch.arange(2048, device="cuda") // 700)[None].repeat(2, 1)
    mask = torch.arange(2048, device="cuda") < torch.tensor([[2048], [1500]], device="cuda")
    with torch.no_grad():
        sparse = model(tokens, attention_mask=mask, document_ids=documents).logits
        dense = model(
            tokens, attention_mask=mask, document_ids=documents, attn_implementation="eager"
        ).logits
    assert torch.allclose(sparse[mask], dense[mask], atol=1e-4)


@pytest.mark.parametrize("given", ["nothing", "padding", "global"])
@pytest.mark.parametrize(
    "pattern",
    [
        spec.BlockSparsePattern(block_size=64, num_random_blocks=2),
        spec.AttentionPattern(left=60, right=60),
    ],
    ids=str,
)
def test_groups_of_queries_as_the_dense_mask(pattern, given):
    """Without, with padding whose queries see nothing, and with global tokens; and gradients."""
    torch.backends.cuda.matmul.allow_tf32 = False
    own = given == "global" and isinstance(pattern, spec.AttentionPattern)
    attention = spec.AttentionSpec(heads=2, head_dim=8, separate_global_projections=own)
    model = tiny.transformer(tiny.encoder(2, attention=attention, pattern=pattern)).cuda()
    slots = torch.arange(1500, device="cuda")
    given_too = {} if given == "nothing" else {"attention_mask": (slots >= 300).expand(2, -1)}
    if own:
        given_too["global_attention_mask"] = (slots % 400 == 0).expand(2, -1)
    mask = given_too.get("attention_mask", torch.ones(2, 1500, dtype=torch.bool, device="cuda"))
    results = []
    for eager in (False, True):
        out = model(
            tiny.tokens(2, 1500).cuda(), attn_implementation="eager" if eager else None, **given_too
        ).logits[mask]
        model.zero_grad()
        out.square().mean().backward()
        results.append((out.detach(), [p.grad.clone() for p in model.parameters()]))
    (sparse, gradients), (dense, expected) = results
    assert torch.allclose(sparse, dense, atol=1e-4)
    for one, other in zip(gradients, expected, strict=True):
        assert torch.isfinite(one).all() and torch.allclose(one, other, atol=1e-3)
