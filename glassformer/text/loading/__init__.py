"""Reading tokenizer files of every kind."""
