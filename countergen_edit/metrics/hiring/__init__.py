"""Hiring: whether a model invites people alike who differ in their names alone."""

from countergen_edit.metrics.hiring.metric import Hiring

__all__ = ["Hiring"]
