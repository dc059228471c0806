"""Run `countergen-edit sweep` from a checkout: python scripts/sweep.py [key=value …]."""

import sys

from countergen_edit.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["sweep", *sys.argv[1:]]))
