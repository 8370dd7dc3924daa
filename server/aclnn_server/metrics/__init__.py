"""What a server tells about itself to those who run it: Prometheus metrics, and an overview for people."""
