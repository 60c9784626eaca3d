"""What Glassformer says when it cannot go on: one clear sentence, never a traceback."""


class GlassformerError(Exception):
    """Bad input. Its text is one sentence that names the thing and the way out."""
