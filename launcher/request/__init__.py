"""Requests for jobs: one pure builder of CreateTrainingJob requests, and the code bundle."""

from launcher.request.builder import Placement, build_document, build_request
from launcher.request.bundle import Bundle, build_bundle
from launcher.request.names import check_name, job_name
from launcher.request.source import SourceTree

__all__ = [
    "Bundle",
    "Placement",
    "SourceTree",
    "build_bundle",
    "build_document",
    "build_request",
    "check_name",
    "job_name",
]
