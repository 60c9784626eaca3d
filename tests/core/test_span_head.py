"""The answer search of the span head, compared with a search written as loops."""

from __future__ import annotations

from dataclasses import replace

import tiny
import torch

from glassformer import spec

MASK = torch.tensor(
    [[False, False, True, True, True, True], [True, True, True, False, False, False]]
)


def run(starts: int, ends: int, mask):
    beam = spec.SpanBeamSpec(starts=starts, ends=ends, norm=spec.NormSpec(eps=1e-3))
    head = spec.HeadSpec(name="answer", num_outputs=1, scalar=True, beam=beam)
    model = tiny.transformer(replace(tiny.encoder(1), heads=(head,)))
    with torch.no_grad():
        return model.heads["answer"], model(tiny.tokens(2, 6), attention_mask=mask)


def test_the_search_by_hand():
    head, out = run(2, 3, MASK)
    assert out.logits.shape == (2, 6)
    with torch.no_grad():
        for row in range(2):
            hidden = out.last_hidden_state[row][MASK[row]]
            share = (hidden @ head.out.weight[0] + head.out.bias).softmax(0)
            best = share.argsort(descending=True)[:2]
            assert out.head_outputs["answer.start_at"][row].tolist() == best.tolist()
            assert torch.allclose(out.head_outputs["answer.start"][row], share[best], atol=1e-6)
            end = out.head_outputs["answer.end"][row].view(3, 2)
            end_at = out.head_outputs["answer.end_at"][row].view(3, 2)
            for column, start in enumerate(best):
                pairs = torch.cat((hidden, hidden[start].expand_as(hidden)), -1)
                inner = head.end.norm(torch.tanh(head.end.dense(pairs)))
                shares = head.end_out(inner)[:, 0].softmax(0)
                order = shares.argsort(descending=True)[:3]
                assert end_at[:, column].tolist() == order.tolist()
                assert torch.allclose(end[:, column], shares[order], atol=1e-6)
            both = torch.cat((share @ hidden, hidden[-1]))
            possible = head.possible_out(torch.tanh(head.possible.dense(both)))
            assert torch.allclose(out.head_outputs["answer.possible"][row], possible[0], atol=1e-6)


def test_a_text_shorter_than_the_beam():
    _, out = run(9, 9, MASK)
    assert out.head_outputs["answer.start"].shape == (2, 6)
    assert out.head_outputs["answer.start_at"][1].tolist()[3:] == [-1, -1, -1]
    assert sorted(out.head_outputs["answer.start_at"][0].tolist()) == [-1, -1, 0, 1, 2, 3]
    assert torch.allclose(out.head_outputs["answer.start"].sum(-1), torch.ones(2))


def test_without_a_mask_all_tokens_are_real():
    _, plain = run(2, 2, None)
    _, masked = run(2, 2, torch.ones(2, 6, dtype=torch.bool))
    for name, value in plain.head_outputs.items():
        assert torch.equal(value, masked.head_outputs[name]), name
