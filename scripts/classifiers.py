"""Run `countergen-edit classifiers` from a checkout: scripts/classifiers.py [key=value …]."""

import sys

from countergen_edit.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["classifiers", *sys.argv[1:]]))
