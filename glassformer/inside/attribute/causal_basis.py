"""Causal basis extraction: the directions of the residual stream that matter most for a lens.

The directions are found one after the other, each orthogonal to the previous ones: each is the
direction whose replacement by its mean over many texts changes the output of the lens most (Belrose
et al., 2023). The search starts from the best of several candidates and optimizes them with L-BFGS;
it is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.inside.capture.cancellation import check_cancelled
from glassformer.inside.capture.corpus import LENGTH, TOKENS, batches, captured, pieces
from glassformer.inside.capture.model_inputs import Text
from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.displayable import Displayable
from glassformer.inside.lens.lens_metrics import check_gradient, head_log_probs, spans
from glassformer.inside.lens.stages import language_head, stage_at, stage_label
from glassformer.inside.lens.tuned_lens import TunedLens
from glassformer.inside.lens.unembed import Words, logit_effects, ranked
from glassformer.spec import HeadSpec
from glassformer.tasks.model_protocol import TaskModel

ROWS, SOME = 4096, 128  # tokens used (the first of the texts), and for the initial guess
TRIED, CLIMBED = 4, 3  # candidates of each kind, and how many of the best are optimized
STEPS = 100  # maximum L-BFGS iterations


@dataclass(frozen=True)
class CausalBasis(Displayable):
    """The result of `causal_basis`.

    Attributes:
        stage: The label of the stage.
        energies: [rank], the mean KL in nats between the lens outputs with and without each
            direction, largest first.
        vectors: [rank, width], orthonormal.
        words: For each direction, the tokens it raises most and the tokens it lowers most.
    """

    stage: str
    energies: NamedTensor
    vectors: NamedTensor
    words: list[tuple[Words, Words]]

    def __repr__(self) -> str:
        return f"<causal basis of {len(self.energies)} directions, {self.stage}>"

    def _repr_html_(self) -> str:
        from glassformer.inside.show.circuits import basis_html

        return basis_html(self)

    @property
    def heading(self) -> str:
        return f"Directions that count most, {self.stage}"


def causal_basis(
    model: TaskModel,
    texts: Iterable[Text],
    layer: int | None,
    count: int = 8,
    *,
    part: str = "resid_post",
    tuned: TunedLens | None = None,
    head: str | None = None,
    targets: Iterable[Text] | None = None,
    max_length: int = LENGTH,
    top: int = 8,
    progress: Callable[[int, int], None] | None = None,
) -> CausalBasis:
    """Finds the directions of the residual stream that most affect the logit lens or a tuned lens.

    Args:
        model: The model.
        texts: The texts whose tokens are used.
        layer: The layer whose output is analyzed; None for the embedding.
        count: The number of directions.
        part: "resid_post", or "resid_mid" for the residual stream after the layer's attention.
        tuned: A tuned lens to use instead of the logit lens.
        head: The head, by default the first that reads every position.
        targets: One decoder text per text for an encoder-decoder model.
        max_length: The maximum number of tokens per window.
        top: The number of tokens listed for each end of a direction.
        progress: Called with the number of directions found and `count`.

    Returns:
        The directions with their energies.

    >>> inside.causal_basis(model, texts, layer=3, count=4).energies
    """
    by, name = language_head(model, head), stage_at(model.spec, layer, part)
    if tuned is not None:
        tuned.check(model, by.name)
    found: list[Tensor] = []
    for batch in batches(pieces(model, texts, targets, max_length), TOKENS):
        found.append(captured(model, batch, [name])[name].float())
        if sum(map(len, found)) >= ROWS:
            break
    rows = torch.cat(found)[:ROWS] if found else torch.zeros(0)
    if len(rows) < 2 or not 1 <= count <= rows.shape[1]:
        raise ConfigError(
            f"The number of directions must be between 1 and {model.spec.last_stack.widths[-1]}, "
            "and the texts must have at least two tokens."
        )
    search = CausalBasisSearch(model, by, name, rows, tuned)
    basis = rows.new_zeros(0, rows.shape[1])
    energies: list[float] = []
    for number in range(count):
        vector, energy = search.next(basis)
        basis = torch.cat((basis, vector[None]))
        energies.append(energy)
        if progress is not None:
            progress(number + 1, count)
    order = torch.tensor(energies).argsort(descending=True, stable=True)
    basis = basis[order.to(basis.device)]
    labels = {"rank": [str(rank) for rank in range(count)]}
    through = basis if tuned is None else tuned.map(name, basis) - tuned.map(name, 0 * basis)
    return CausalBasis(
        stage_label(name),
        NamedTensor(torch.tensor(energies)[order], ("rank",), labels, "energy"),
        NamedTensor(basis, ("rank", "width"), labels, "causal basis"),
        ranked(model, logit_effects(model, through), top),
    )


@dataclass
class CausalBasisSearch:
    """Greedy search for the next direction with the largest effect on the lens output."""

    model: TaskModel
    head: HeadSpec
    stage: str
    rows: Tensor  # [row, width]
    tuned: TunedLens | None

    def __post_init__(self) -> None:
        self.mean = self.rows.mean(0)
        self.dtype = self.model.dtype
        centered, slopes = self.rows - self.mean, self._slopes()
        self.spread = centered.T @ centered / len(centered)  # [width, width]
        self.felt = slopes.T @ slopes / len(slopes)

    def _slopes(self) -> Tensor:
        """Gradients of the top token's logit margin over the second for some rows, [row, width]."""
        places = torch.linspace(0, len(self.rows) - 1, min(SOME, len(self.rows))).long()
        with torch.enable_grad():
            rows = self.rows[places.to(self.rows.device)].requires_grad_()
            best = self._log_probs(rows).topk(2).values
            lead = (best[:, 0] - best[:, 1]).sum()
            check_gradient(lead)
            slopes: Tensor = torch.autograd.grad(lead, rows)[0]
        return slopes

    def next(self, before: Tensor) -> tuple[Tensor, float]:
        """Returns the direction orthogonal to `before`, [rank, width], with the largest energy."""

        def project(x: Tensor) -> Tensor:
            x = x - before.T @ (before @ x)
            return F.normalize(x, dim=0)

        with torch.no_grad():
            starts = sorted(map(project, self._candidates(before)), key=self.energy)[-CLIMBED:]
        ends = [self._maximize_energy(start, project) for start in starts]
        best = max(ends, key=self.energy)
        return best, self.energy(best)

    def _maximize_energy(self, start: Tensor, project: Callable[[Tensor], Tensor]) -> Tensor:
        free = start.clone().requires_grad_()
        climb = torch.optim.LBFGS(
            [free], max_iter=STEPS, tolerance_change=1e-7, line_search_fn="strong_wolfe"
        )

        def closure() -> Tensor:
            check_cancelled()
            free.grad = None
            loss = torch.zeros((), device=free.device)
            for some in spans(len(self.rows), self.head):
                with torch.enable_grad():
                    part = -self.part(project(free), some)
                    check_gradient(part)
                    (slope,) = torch.autograd.grad(part, free)
                free.grad = slope if free.grad is None else free.grad + slope
                loss = loss + part.detach()
            return loss

        climb.step(closure)  # type: ignore[no-untyped-call]
        end = project(project(free.detach()))  # twice: the first leaves a rounding error
        return max((start, end), key=self.energy)

    def _candidates(self, before: Tensor) -> list[Tensor]:
        """Initial directions orthogonal to `before`.

        They are the leading eigenvectors of the rows' covariance, of the gradients' second moment,
        and of both combined.
        """
        complement = torch.eye(before.shape[1], device=before.device) - before.T @ before
        product = self.spread @ self.felt
        tables = (self.spread, self.felt, product + product.T)
        found = [torch.linalg.eigh(complement @ each @ complement).eigenvectors for each in tables]
        return [x for each in found for x in each.T[-TRIED:]]

    @torch.no_grad()
    def energy(self, direction: Tensor) -> float:
        """The mean KL in nats between the lens outputs with and without a direction."""
        return sum(float(self.part(direction, some)) for some in spans(len(self.rows), self.head))

    def part(self, direction: Tensor, some: slice) -> Tensor:
        rows = self.rows[some]
        with torch.no_grad():
            was = self._log_probs(rows)
        without = rows - ((rows - self.mean) @ direction)[:, None] * direction
        now = self._log_probs(without)
        return F.kl_div(now, was, reduction="sum", log_target=True) / len(self.rows)

    def _log_probs(self, rows: Tensor) -> Tensor:
        rows = rows if self.tuned is None else self.tuned.map(self.stage, rows)
        return head_log_probs(self.model, self.head, rows.to(self.dtype))
