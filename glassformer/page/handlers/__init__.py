"""Request handlers of the page, one module per panel.

Handlers compute nothing themselves: they call `inside` and convert the results to the form
described in page/src/protocol.ts.
"""

from glassformer.page.handlers import (
    attention,
    circuits,
    compare,
    edit,
    lens,
    models,
    neurons,
    next_token,
    parameters,
    positions,
    text,
    walk,
)
from glassformer.page.session import Question

QUESTIONS: dict[str, Question] = {
    "models": models.models,
    "structure": models.structure,
    "read": text.read,
    "array": text.array,
    "vocabulary": text.vocabulary,
    "attention": attention.attention,
    "heads": attention.heads,
    "walk": walk.walk,
    "cell": walk.cell,
    "next": next_token.next_tokens,
    "continue": next_token.continued,
    "beams": next_token.beams,
    "step": next_token.step,
    "lens": lens.lens,
    "lens_cell": lens.lens_cell,
    "contributions": lens.contributions,
    "saliency": lens.saliency,
    "strongest": neurons.strongest,
    "positions": positions.positions,
    "edit": edit.edit,
    "edit_lens": edit.edit_lens,
    "edit_text": edit.edit_text,
    "sweep": edit.sweep,
    "compare": compare.compare,
    "parameters": parameters.parameters,
    "histogram": parameters.histogram,
    "circuit": circuits.circuit,
    "composition": circuits.composition,
}
