"""Checkpoints in and out. A folder in the published layout becomes a net, and a
net becomes such a folder; every tensor on both sides is accounted for."""
