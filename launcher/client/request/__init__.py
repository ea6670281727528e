"""Requests for jobs: one pure builder of CreateTrainingJob requests, and the code bundle."""

from launcher.client.request.builder import JobLocation, build_document, build_request
from launcher.client.request.bundle import Bundle, build_bundle
from launcher.client.request.job_names import check_name, job_name
from launcher.client.request.source_tree import SourceTree

__all__ = [
    "Bundle",
    "JobLocation",
    "SourceTree",
    "build_bundle",
    "build_document",
    "build_request",
    "check_name",
    "job_name",
]
