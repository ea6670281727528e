"""Requests for jobs: one pure builder of CreateTrainingJob requests, and the code bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.client.request.builder import MODEL_CONTENT, JobLocation, build_request
    from launcher.client.request.bundle import (
        LARGE_SOURCE,
        Bundle,
        build_bundle,
        content_hash,
        job_world,
    )
    from launcher.client.request.image_names import (
        IMAGES,
        image_python,
        image_region,
        known_huggingface_image,
        python_problems,
        registry_problems,
    )
    from launcher.client.request.images import find_image, image_of
    from launcher.client.request.job_limits import find_limits, read_job
    from launcher.client.request.prepared import Submission, build_document, prepare, redacted
    from launcher.client.request.request_paths import (
        REQUEST_PATHS,
        field_of,
        fill_paths,
        read_path,
        read_paths,
    )
    from launcher.client.request.source_tree import SourceFile, SourceTree
    from launcher.client.request.toolkit import SOURCE_FILE
    from launcher.client.request.validation.api_model_check import (
        UnknownType,
        WrongType,
        compiled,
        find_violations_of,
    )
    from launcher.client.request.validation.request_check import (
        RULES,
        find_violations,
        input_shape,
        service_model,
    )
    from launcher.client.request.validation.violations import RequestJudge, Violation, aws_answer

__getattr__ = open_door(__name__)
