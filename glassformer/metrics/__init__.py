"""Metrics that compare predictions with gold answers, as in the literature of each task."""
