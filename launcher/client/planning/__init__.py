"""Planning before a job is submitted: cost, capacity, profiles and the recommended cluster.

Its subpackages comparison and diagnosis are about jobs that ran.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.client.planning.comparison.compared_job import (
        ComparedGroup,
        ComparedJob,
        job_with_prices,
    )
    from launcher.client.planning.comparison.comparison import (
        Comparison,
        change_text,
        compare,
        price_change,
    )
    from launcher.client.planning.cuts.partition_view import Partition, partition_tables, title
    from launcher.client.planning.cuts.partitioner import PROFILES, partition
    from launcher.client.planning.cuts.timeline_picture import timeline_svg
    from launcher.client.planning.diagnosis.advice import Advice, advise, larger_types
    from launcher.client.planning.diagnosis.diagnosis import (
        Diagnosis,
        advice_text,
        diagnose,
        diagnosis_of,
    )
    from launcher.client.planning.diagnosis.evidence_reading import read_evidence
    from launcher.client.planning.diagnosis.job_evidence import (
        JobEvidence,
        MeanStepTime,
        StepWindow,
        mean_step_time,
    )
    from launcher.client.planning.diagnosis.observed_cluster import (
        observe_cluster,
        priced_groups,
    )
    from launcher.client.planning.plans.amounts import Measure
    from launcher.client.planning.plans.catalogue_type_update import (
        CatalogueTypeUpdate,
        described_type,
        update_catalogue_types,
    )
    from launcher.client.planning.plans.cluster_candidates import (
        MOST_DATA_HOSTS,
        Candidate,
        PricedType,
        can_prepare,
        can_train,
        candidates,
        priced_cluster,
    )
    from launcher.client.planning.plans.cost_plan import (
        CostPlan,
        cost_table,
        enforce_max_cost,
        plan_job,
    )
    from launcher.client.planning.plans.exchange import traffic
    from launcher.client.planning.plans.job_attempts import (
        JobAttempt,
        attempt_names,
        detached_warnings,
        run_attempts,
        type_combinations,
    )
    from launcher.client.planning.plans.job_file_writer import job_of_candidate
    from launcher.client.planning.plans.parallel_strategy import (
        RESERVED,
        ModelFigures,
        Strategy,
        strategies,
        strategy_for,
    )
    from launcher.client.planning.plans.prefetch import FEW_STALLS, BatchTimes, stall_seconds
    from launcher.client.planning.plans.recommendation import (
        AS_GOOD,
        PlanLimits,
        PlanOrder,
        Recommendation,
        choose,
        recommend,
    )
    from launcher.client.planning.plans.recommendation_html import (
        ClusterPoint,
        ClusterScatter,
        amounts,
        recommendation_page,
        recommendation_scatter,
    )
    from launcher.client.planning.plans.recommendation_layout import (
        answer_text,
        cluster_table,
        explained_clusters,
        plain_recommendation,
    )
    from launcher.client.planning.plans.step_model import (
        SECONDS_PER_GB,
        SERVED_BATCHES,
        Bottleneck,
        ClusterShape,
        GroupShape,
        data_workers,
        estimate_step,
        family,
        local_workers,
        spare_vcpus,
        vcpu_speed,
    )
    from launcher.client.planning.workloads.dataset_profile import (
        ProfileRequest,
        profile_datasets,
        worker_counts,
    )
    from launcher.client.planning.workloads.job_profile import (
        JobFigures,
        profile_of_figures,
        profile_of_job,
    )
    from launcher.client.planning.workloads.this_machine import (
        MachineCpu,
        MeasuredStepTime,
        catalogue_name,
    )
    from launcher.client.planning.workloads.workload import Workload
    from launcher.client.planning.workloads.workload_profile import (
        WorkloadProfile,
        model_fields,
        profile_text,
    )

__getattr__ = open_door(__name__)
