"""Write the JSON Schema of result rows into docs/results: python scripts/row_schema.py."""

import sys
from pathlib import Path

from countergen_edit.core.errors import UserError
from countergen_edit.metrics.row_schema import write_row_schema

if __name__ == "__main__":
    try:
        print(write_row_schema(Path(__file__).parent.parent / "docs" / "results"))
    except UserError as error:
        sys.exit(f"row_schema: {error}")
