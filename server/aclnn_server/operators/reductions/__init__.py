"""Operators that make few elements of many."""
