"""Reports: from result rows to what a person reads. Nothing is computed here, and no metric known.

A metric says what stands where (`countergen_edit.metrics.base`); this room puts it in order and
renders it: for a terminal, as a page, as files for papers, as a model card.
"""
