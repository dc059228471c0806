"""Run `countergen-edit compare` from a checkout: python scripts/compare.py [key=value …]."""

import sys

from countergen_edit.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["compare", *sys.argv[1:]]))
