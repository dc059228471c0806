"""Run `countergen-edit rate` from a checkout: python scripts/rate.py [key=value …]."""

import sys

from countergen_edit.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["rate", *sys.argv[1:]]))
