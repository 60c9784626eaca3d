"""The highlighted position and head, compared with explicit contributions and entropies."""

from __future__ import annotations

import small
import torch

from glassformer.inside.explain.highlight import Highlight, highlight

TEXT = "time flies like an arrow"


def strongest(view, **of):
    parts = [part for part in view.contributions(**of).parts if part.kind in ("head", "cross head")]
    return max(parts, key=lambda part: part.value)


def test_a_decoder_at_its_last_token():
    view = small.decoder().look(TEXT)
    found, best = highlight(view), strongest(view, position=4)
    assert found == Highlight(4, "decoder", best.layer, best.head)


def test_an_encoder_at_its_mask_or_where_it_is_least_certain():
    model = small.encoder()
    assert highlight(model.look("time [MASK] like an arrow")).position == 2
    view = model.look(TEXT)
    shares = view.logits.array.softmax(-1)
    entropy = torch.special.entr(shares).sum(-1)
    assert highlight(view).position == 1 + int(entropy[1:-1].argmax())  # not at the frame


def test_an_encoder_decoder_where_it_is_least_certain():
    view = small.both().look(TEXT, "fruit flies like")
    shares = view.logits.array.softmax(-1)
    at = int(torch.special.entr(shares).sum(-1).argmax())
    found, best = highlight(view), strongest(view, position=at)
    kind = "cross" if best.kind == "cross head" else "decoder"
    assert found == Highlight(at, kind, best.layer, best.head)


def test_labels_of_a_whole_text():
    view = small.several().look(TEXT, head="topic")
    best = strongest(view, head="topic")
    assert highlight(view) == Highlight(5, "encoder", best.layer, best.head)


def test_an_empty_text_is_the_start_token():
    model = small.decoder()
    view = model.look("")
    assert [token.id for token in view.tokens] == [model.spec.tokens.bos]
    with torch.no_grad():
        logits = model(torch.tensor([[model.spec.tokens.bos]])).logits[0]
    assert torch.allclose(view.logits.array, logits, atol=1e-5)
    assert highlight(view).position == 0
