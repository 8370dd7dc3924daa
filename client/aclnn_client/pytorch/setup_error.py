"""The one error of this package."""


class SetupError(ImportError):
    """PyTorch cannot run on the C library here; the text says what is missing and what brings it."""
