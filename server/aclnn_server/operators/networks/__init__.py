"""The layers of networks and their gradients."""
