"""Train room, before the first step: a recipe becomes a loop that can be run."""
