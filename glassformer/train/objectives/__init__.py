"""Train room, objectives: what a net is asked for, and how far off its answer is."""
