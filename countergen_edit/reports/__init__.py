"""Reports: from result rows to what a person reads; nothing is computed here."""
