"""Run `countergen-edit report` from a checkout: python scripts/report.py [key=value …]."""

import sys

from countergen_edit.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["report", *sys.argv[1:]]))
