"""Loading and saving of checkpoints in the published folder layout.

Every tensor, in the files and in the model, is accounted for: read, tied, made, or dropped with
a reason.
"""
