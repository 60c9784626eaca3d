"""Analysis of weights without a text."""
