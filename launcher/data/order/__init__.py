"""Batch composition and loading: which samples are in which batch, the same on every host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.data.order import samples, shard_interleaving, user_code, verification
    from launcher.data.order.batch_plan import (
        BatchPlan,
        ResumePoint,
        check_not_empty,
        make_plan,
        sampled,
    )
    from launcher.data.order.current_shard import shard
    from launcher.data.order.dataset_arguments import (
        EPOCH,
        UNKNOWN,
        ChannelPath,
        channel,
        channel_of,
        with_arguments,
        wrong_values,
    )
    from launcher.data.order.original_error_types import type_names, with_original_type
    from launcher.data.order.sample_order import (
        SampleOrder,
        SamplerCall,
        epoch_order,
        sampled_order,
    )
    from launcher.data.order.samples import (
        Datasets,
        Description,
        GivenObjects,
        Skipped,
        check_dataset,
        is_iterable,
    )
    from launcher.data.order.saved_states import (
        MOST_STATES,
        SavedState,
        SavedStates,
        ShardPrefix,
    )
    from launcher.data.order.served_code import ServedCodeCheck, is_listed, not_served
    from launcher.data.order.shard_interleaving import (
        Parts,
        ShardBatch,
        ShardEnd,
        ShardProgress,
        Step,
        read_epoch,
        read_parts,
        unpack,
    )
    from launcher.data.order.shard_reader import LocalShardReader, ShardReader, ShardReaders
    from launcher.data.order.shards import ENDLESS, ShardPlan, ShardReaderPlan, plan_shards
    from launcher.data.order.step_set import Range, StepSet
    from launcher.data.order.stream_spec import (
        OnError,
        OnNondeterminism,
        Seeding,
        StreamSpec,
        Uneven,
    )
    from launcher.data.order.user_code import error_repr, latest_traceback
    from launcher.data.order.verification import (
        BatchContent,
        LaterPreparation,
        LocalVerifier,
        SecondPreparations,
        chosen_steps,
        describe_difference,
        is_chosen,
    )

__getattr__ = open_door(__name__)
