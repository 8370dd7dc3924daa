"""Text that follows from the catalogue: clients' functions, headers, documentation."""
