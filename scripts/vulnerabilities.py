"""Print the findings of pip-audit: python scripts/vulnerabilities.py REPORT.json.

The exit code is 1 if a version has a known vulnerability, and 0 if none has or no index of
advisories could be reached (pip-audit leaves no report, or skips every package).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(report: Path) -> int:
    """Print known vulnerabilities; return the exit code."""
    try:
        packages = json.loads(report.read_text("utf-8"))["dependencies"]
    except (OSError, ValueError):
        packages = []
    asked = [package for package in packages if "skip_reason" not in package]
    if not asked:
        print("no index of advisories can be asked here: nothing is said of known vulnerabilities")
        return 0
    found = [(package, vulnerability) for package in asked for vulnerability in package["vulns"]]
    for package, vulnerability in found:
        mended = ", ".join(vulnerability["fix_versions"]) or "no version"
        print(f"{package['name']} {package['version']}: {vulnerability['id']}, mended in {mended}")
    print(f"{len(found)} known vulnerabilities in {len(asked)} of {len(packages)} pinned packages")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
