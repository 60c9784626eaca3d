"""Attention kernels and masks."""
