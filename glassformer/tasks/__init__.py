"""Tasks on texts, one per module: classify, tag, answer, embed, fill, translate and others."""
