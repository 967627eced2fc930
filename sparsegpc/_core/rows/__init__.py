"""Computation over the rows of the data: threads, files, clusters, equal rows."""
