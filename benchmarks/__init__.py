"""What aclnn-serve costs, beside what a user would pick instead: ``python -m benchmarks``.

One module per system under test in :mod:`benchmarks.systems`, all behind the same two small classes; one
module per question in :mod:`benchmarks.questions`. See the README beside this file.
"""
