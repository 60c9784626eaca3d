"""Questions answered by log-probability, as EleutherAI's
lm-evaluation-harness asks them. A record of a benchmark comes in, requests and figures go out."""
