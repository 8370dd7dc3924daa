"""What operators are computed with: blocks, rows, reductions, products, copies, and threads."""
