"""Capturing activations of a forward pass."""
