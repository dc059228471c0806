"""Run `countergen-edit debias` from a checkout: python scripts/debias.py [key=value …]."""

import sys

from countergen_edit.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["debias", *sys.argv[1:]]))
