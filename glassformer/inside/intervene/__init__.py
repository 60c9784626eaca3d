"""Edits of activations and their effects."""
