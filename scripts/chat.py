"""Run `countergen-edit chat` from a checkout: python scripts/chat.py [key=value …]."""

import sys

from countergen_edit.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["chat", *sys.argv[1:]]))
