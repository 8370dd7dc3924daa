"""Who is let in: where the server listens, its certificate, and the tokens that clients need."""
