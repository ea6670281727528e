"""`launcher stop` for one job: stop it, or reclaim its spot instances."""

from __future__ import annotations

from launcher.client.cli.options.local_job import session_of_local_job
from launcher.client.cli.screen.verb_output import print_message
from launcher.client.jobs import Job
from launcher.client.sessions import TERMINAL_STATUSES, session_of


def stop_job(name: str, session: str | None) -> dict[str, str]:
    """Stop a job unless it has ended; return its name and status."""
    job = Job(name, session_of(name, session))
    before = job.status
    if before in TERMINAL_STATUSES:
        print_message(f"Job {job.name} has already ended: {before}.")
        return {"name": job.name, "status": before}
    job.stop()
    print_message(f"Job {job.name} is stopping; check with `launcher status {job.name}`.")
    return {"name": job.name, "status": job.status}


def reclaim_spot_instances(name: str) -> dict[str, str]:
    """Reclaim the spot instances of a job of this machine; return its name and status."""
    session = session_of_local_job(name, "there, AWS alone takes spot instances back")
    session.interrupt_training_job(TrainingJobName=name)
    print_message(
        f"Job {name} is interrupted and restarts; follow it with `launcher logs -f {name}`."
    )
    return {"name": name, "status": Job(name, session).status}
