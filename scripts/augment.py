"""Run `countergen-edit augment` from a checkout: scripts/augment.py [key=value …]."""

import sys

from countergen_edit.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["augment", *sys.argv[1:]]))
