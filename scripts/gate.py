"""Run `countergen-edit gate` from a checkout: python scripts/gate.py [key=value …]."""

import sys

from countergen_edit.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["gate", *sys.argv[1:]]))
