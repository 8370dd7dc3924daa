"""Operators that compute each element of the output from one of each input."""
