"""Room 7, tasks: what people ask of texts, one verb a file. Texts come in, answers go out."""
