"""Readers for checkpoint file formats."""
