"""A recurrent (LSTM) layer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.baselines.left_align import LeftAlignment, left_align
from glassformer.core.pass_context import PassContext
from glassformer.errors import UnsupportedError
from glassformer.spec import RecurrentSpec

State = tuple[Tensor, Tensor]  # hidden state and cell state: [batch, state] each
SHUT = 1e4  # a sigmoid is exactly 0 or 1 at -SHUT and SHUT


class DirectionalLSTM(nn.Module):
    """One direction of an LSTM (Hochreiter and Schmidhuber, 1997; Gers, 2000).

    Both matrices hold four row blocks (`parts`): input gate, forget gate, cell candidate, output
    gate.
    """

    def __init__(self, width: int, state: int, weight_dropout: float) -> None:
        super().__init__()
        self.parts = (state,) * 4
        self.weight_in = nn.Parameter(torch.zeros(4 * state, width))
        self.weight_state = nn.Parameter(torch.zeros(4 * state, state))
        self.bias_in = nn.Parameter(torch.zeros(4 * state))
        self.bias_state = nn.Parameter(torch.zeros(4 * state))
        self.weight_dropout = weight_dropout
        self.first_reach = state**-0.5
        self.bptt: int | None = None  # gradients go back this many tokens; None: to the first

    def initial_state(self, x: Tensor) -> State:
        zeros = x.new_zeros(len(x), self.weight_state.shape[1])
        return zeros, zeros

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return self._run_layer(x, state, self.weight_in)

    def until_last_token(
        self, aligned: LeftAlignment, x: Tensor, state: State
    ) -> tuple[Tensor, State]:
        """Runs each row up to its last real token, if any, and returns the state there.

        The kernel returns the cell only of the last step. So an additional input, which is 1 at
        padding, closes the input gate and opens the forget gate: the cell is carried over
        unchanged.
        """
        if x.shape[1] == 1:
            out, new = self(x, state)
            moved = aligned.length[:, None] > 0
            return out, (torch.where(moved, new[0], state[0]), torch.where(moved, new[1], state[1]))
        shut = x.new_tensor((-SHUT, SHUT, 0.0, 0.0)).repeat_interleave(state[1].shape[1])
        x = torch.cat((x, aligned.padding()[..., None].to(x.dtype)), -1)
        out, (_, cell) = self._run_layer(x, state, torch.cat((self.weight_in, shut[:, None]), 1))
        hidden = torch.cat((state[0][:, None], out), 1)  # states after 0, 1, 2, ... tokens
        at = aligned.length[:, None, None].expand(-1, 1, out.shape[-1])
        return out, (hidden.gather(1, at)[:, 0], cell)

    def _run_layer(self, x: Tensor, state: State, weight_in: Tensor) -> tuple[Tensor, State]:
        weight_state = F.dropout(self.weight_state, self.weight_dropout, self.training)
        weights = [weight_in, weight_state, self.bias_in, self.bias_state]
        if self.bptt is None:
            return _steps(x, state, weights)
        outs = []
        for segment in torch.split(x, self.bptt, 1):
            out, state = _steps(segment, (state[0].detach(), state[1].detach()), weights)
            outs.append(out)
        return torch.cat(outs, 1), state


class RecurrentLayer(nn.Module):
    """An LSTM layer, unidirectional or bidirectional."""

    def __init__(self, width: int, spec: RecurrentSpec) -> None:
        super().__init__()
        self.spec = spec
        state = spec.width // 2 if spec.bidirectional else spec.width
        self.ahead = DirectionalLSTM(width, state, spec.weight_dropout)
        if spec.bidirectional:
            self.back = DirectionalLSTM(width, state, spec.weight_dropout)

    def forward(self, x: Tensor, ctx: PassContext) -> Tensor:
        x = ctx.hook_point("resid_pre", x)
        x = locked_dropout(x, self.spec.dropout_in, self.training)
        out = (
            run_direction(self.ahead, x, ctx)
            if ctx.cache is None
            else self.continue_from_cache(x, ctx)
        )
        if self.spec.bidirectional:
            out = torch.cat((out, run_direction(self.back, x, ctx, reverse=True)), -1)
        out = locked_dropout(ctx.hook_point("recurrent_out", out), self.spec.dropout, self.training)
        return ctx.hook_point("resid_post", out)

    def continue_from_cache(self, x: Tensor, ctx: PassContext) -> Tensor:
        """Continues from the state in the cache, and stores the new state there."""
        if self.spec.bidirectional:
            raise UnsupportedError("This model is bidirectional, so it cannot use a cache.")
        assert ctx.cache is not None
        hidden, cell = ctx.cache.state(ctx.layer) or self.ahead.initial_state(x)
        aligned = left_align(ctx, x)
        out: Tensor
        if aligned is None:
            out, state = self.ahead(x, (hidden, cell))
        else:
            out, state = self.ahead.until_last_token(aligned, aligned.move(x), (hidden, cell))
            out = aligned.back(out)
        ctx.cache.set_state(ctx.layer, state)
        return out


def _steps(x: Tensor, state: State, weights: list[Tensor]) -> tuple[Tensor, State]:
    out, hidden, cell = torch.lstm(
        x,
        [state[0][None], state[1][None]],
        weights,
        has_biases=True,
        num_layers=1,
        dropout=0.0,
        train=torch.is_grad_enabled(),  # only then cuDNN keeps what a backward pass needs
        bidirectional=False,
        batch_first=True,
    )
    return out, (hidden[0], cell[0])


def truncate(module: nn.Module, tokens: int) -> None:
    """Truncates back-propagation through time: gradients stop every `tokens` tokens of a text.

    States are still passed on, so texts may have any length (Howard and Ruder, 2018, 3.3).
    """
    walks = [walk for walk in module.modules() if isinstance(walk, DirectionalLSTM)]
    if not walks:
        raise UnsupportedError(
            "train.bptt is for recurrent layers, and this model has none.", field="train.bptt"
        )
    for walk in walks:
        walk.bptt = tokens


def run_direction(
    walk: DirectionalLSTM, x: Tensor, ctx: PassContext, reverse: bool = False
) -> Tensor:
    """Runs one direction over whole texts, and returns the output at each position."""
    aligned = left_align(ctx, x, reverse)
    if aligned is None:
        out: Tensor = walk(x, walk.initial_state(x))[0]
        return out
    return aligned.back(walk(aligned.move(x), walk.initial_state(x))[0])


def locked_dropout(x: Tensor, share: float, training: bool) -> Tensor:
    """Drops the same dimensions at every position of a text."""
    if not training or share == 0:
        return x
    return x * F.dropout(x.new_ones(x.shape[0], 1, x.shape[2]), share)
