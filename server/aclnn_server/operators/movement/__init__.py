"""Operators that make, draw, move and choose elements."""
