"""Tokenizers that the `tokenizers` library does not implement."""
