"""The contract's calls: decode, call the sessions, encode. One table serves Submit and the unary calls."""
