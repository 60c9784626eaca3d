"""What people ask of texts, one verb a file. Texts come in, answers go out."""
