"""Run `countergen-edit cid` from a checkout: python scripts/cid.py [key=value …]."""

import sys

from countergen_edit.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["cid", *sys.argv[1:]]))
