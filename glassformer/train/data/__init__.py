"""Train room, data: files come in, examples of token ids go out, in an order that a seed fixes."""
