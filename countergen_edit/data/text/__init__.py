"""Words and grammar of texts: substitution of one group for another, and coreference."""
