"""Operators: signatures, validation and NumPy kernels, each defined in one place."""
