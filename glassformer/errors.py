"""The exception class for errors that users see as one sentence, without a traceback."""


class GlassformerError(Exception):
    """Raised for invalid input. The message is one sentence naming the problem and the remedy."""
