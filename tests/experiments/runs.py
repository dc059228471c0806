"""What runs of tests are known by."""

from countergen_edit.metrics.rows import SCHEMA

IDENTITY = {"fingerprint": "f" * 64, "schema": SCHEMA}
