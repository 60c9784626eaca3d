"""Training tokenizers on text."""
