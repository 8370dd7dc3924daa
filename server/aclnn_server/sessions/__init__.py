"""What the server keeps for its clients: contexts, streams, buffers, executors, events. Knows no gRPC."""
