"""Published benchmarks as one metric."""
