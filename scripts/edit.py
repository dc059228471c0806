"""Run `countergen-edit edit` from a checkout: python scripts/edit.py [key=value …]."""

import sys

from countergen_edit.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["edit", *sys.argv[1:]]))
