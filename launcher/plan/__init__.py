"""The plan shown before a job is sent: its machines, what they may cost, its output locations."""

from launcher.plan.ceiling import refuse_above
from launcher.plan.plan import Plan, plan_job
from launcher.plan.text import plan_text

__all__ = ["Plan", "plan_job", "plan_text", "refuse_above"]
