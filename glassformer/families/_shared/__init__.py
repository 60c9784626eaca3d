"""Helpers shared by several families."""
