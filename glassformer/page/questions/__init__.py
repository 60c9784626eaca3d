"""Page room, questions: one function each, a file a panel. What was asked comes in, an answer goes out.

Nothing is computed here: what a question needs comes from `inside`, and is put into the form that
page/src/protocol.ts describes.
"""

from glassformer.page.questions import attention, models, next_token, parameters, text
from glassformer.page.session import Question

QUESTIONS: dict[str, Question] = {
    "models": models.models,
    "structure": models.structure,
    "read": text.read,
    "array": text.array,
    "attention": attention.attention,
    "next": next_token.next_tokens,
    "continue": next_token.continued,
    "parameters": parameters.parameters,
    "histogram": parameters.histogram,
}
