"""Explanation of the numbers of embeddings, the final norm, logits and probabilities."""

from __future__ import annotations

from glassformer.core.heads import Head
from glassformer.errors import UnsupportedError
from glassformer.inside.attribute.predicted import Predicted
from glassformer.inside.explain.recompute import array, embedded
from glassformer.inside.explain.terms import Cell, CellContext, Term

SUMS = ("embed.sum", "embed.normed")


class EmbeddingAndHeadCells(CellContext):
    """Explains the numbers of embeddings, the final norm and the head."""

    def embedding(self, stack: str, rest: str) -> Cell:
        sums = tables = embedded(self.view, stack)
        module = getattr(self.view.model.net, stack).embed
        token = getattr(self.view.reading, stack)[self.row]
        tables = {name: table for name, table in tables.items() if name not in SUMS}
        if rest in tables:
            parts: dict[str, float | str] = {"token": token.text, "position": self.row}
            if rest == "embed.token":
                parts |= {"id": token.id, "scale": module.spec.scale}
            return Cell(self.value, "lookup", (), parts)
        terms = tuple(
            Term(name.removeprefix("embed."), float(table[self.row, self.col]))
            for name, table in tables.items()
            if self.col < table.shape[1]
        )
        spec = module.spec
        if rest == "embed" and tables and spec.embedding_size is not None and spec.project == "sum":
            x = sums["embed.normed" if spec.norm is not None else "embed.sum"][self.row]
            return self.dot(x, module.project.weight[self.col], "width")
        if rest == "embed.sum" or not tables or spec.norm is None:
            return Cell(self.value, "sum", terms)
        return self.normed(module.norm, sums["embed.sum"][self.row], terms)

    def final(self, stack: str) -> Cell:
        module = getattr(self.view.model.net, stack)
        last = len(module.spec.order) - 1
        x = array(self.view, f"{stack}.blocks.{last}.resid_post").array[self.row]
        if module.spec.final_norm is None or module.spec.projection_width is not None:
            return Cell(self.value, "sum", (Term(f"layer {last}", self.value),))
        return self.normed(module.final_norm, x, (Term("stream", float(x[self.col])),))

    def logit(self) -> Cell:
        view = self.view
        said = Predicted(view)
        module = view.model.net.heads[said.head.name]
        assert isinstance(module, Head)
        weight = getattr(module.out, "weight", None)
        if weight is None:
            raise UnsupportedError("This head goes by clusters of words; it is not told here.")
        position, output = said.asked(self.row, self.col)
        hidden = array(view, f"{view.stack}.final").array[None]
        x = module.features(hidden, said.where())[0]
        x = x if position is None else x[position]
        return self.dot(x, weight[output], "width", cap=module.spec.softcap)

    def probability(self) -> Cell:
        said = Predicted(self.view)
        if said.by.several:
            raise UnsupportedError("A label that holds by itself has e^x / (1 + e^x) of its logit.")
        row = said.logits([self.row])[0].float()
        return self.exponents(row, said.text)
