"""The C++ back end, for a CPU: one pass over the weights per step, by all threads."""
