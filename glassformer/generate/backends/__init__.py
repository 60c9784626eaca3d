"""Back ends: what executes the program of a decoder step, instead of the modules."""
