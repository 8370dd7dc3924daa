"""Code generated from the schema, package aclnn.v1."""
