"""Shares of labels over time, with alerts."""
