"""Changes of a model's weights that do not raise PyTorch's counter of changes."""

from __future__ import annotations

import torch


def fused_step(parameters):
    """A step of a fused optimizer."""
    for parameter in parameters:
        parameter.grad = torch.linspace(-1, 1, parameter.numel()).view(parameter.shape)
    optimizer = torch.optim.AdamW(parameters, lr=0.05, fused=True)
    optimizer.step()
    optimizer.zero_grad()


def multiplied_data(parameters):
    for parameter in parameters:
        parameter.data.mul_(-1.1)


def written_by_numpy(parameters):
    for parameter in parameters:
        view = parameter.detach().numpy()
        view[..., ::2] *= -0.7


SILENT = {
    "a fused step": fused_step,
    "data multiplied": multiplied_data,
    "written by numpy": written_by_numpy,
}
