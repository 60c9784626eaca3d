"""Benchmarks scored by log-probability, as in EleutherAI's lm-evaluation-harness."""
