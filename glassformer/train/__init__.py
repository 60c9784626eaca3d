"""Train room: a net and texts come in, a better net goes out."""
