"""Run `countergen-edit templates` from a checkout: python scripts/templates.py [key=value …]."""

import sys

from countergen_edit.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["templates", *sys.argv[1:]]))
