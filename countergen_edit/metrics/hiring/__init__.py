"""Hiring: acceptance of applications that differ in the applicant's name alone."""

from countergen_edit.metrics.hiring.metric import Hiring

__all__ = ["Hiring"]
