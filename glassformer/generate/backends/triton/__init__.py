"""The Triton back end, for a GPU: few launches per step, with norms and sums inside products."""
