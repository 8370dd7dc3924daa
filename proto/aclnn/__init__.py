"""What both sides of aclnn-serve must agree on: schema, dtypes, tensors, errors, signatures."""

__version__ = "0.1.0"

PROTOCOL_VERSION = 1
"""Version of the schema in ``aclnn.v1`` that this distribution speaks."""
