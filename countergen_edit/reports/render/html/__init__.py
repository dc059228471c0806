"""The report as one page: templates, style and behaviour are files beside this one."""

from countergen_edit.reports.render.html.page import REPORT, fragment, render, write_page

__all__ = ["REPORT", "fragment", "render", "write_page"]
