"""Run `countergen-edit testbed` from a checkout: python scripts/testbed.py [key=value …]."""

import sys

from countergen_edit.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["testbed", *sys.argv[1:]]))
