"""Logit lens and tuned lens."""
