"""How single numbers of a forward pass are computed."""
