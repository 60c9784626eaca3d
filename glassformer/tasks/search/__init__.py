"""Search over an index of text passages."""
