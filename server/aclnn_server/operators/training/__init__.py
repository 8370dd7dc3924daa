"""What optimisers do."""
