"""Serves the two-phase aclnn operator API over gRPC."""
