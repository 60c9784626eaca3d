"""Attention modules, kernels and masks."""
