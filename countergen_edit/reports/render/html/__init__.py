"""The report as one page: templates, style and behaviour are files beside this one."""

from countergen_edit.reports.html.page import render, write_report

__all__ = ["render", "write_report"]
