"""The probe's questions and answers as text; docs/probe.md explains each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_Answers = Mapping[str, Any]


@dataclass(frozen=True)
class ProbeQuestion:
    """One question; `answer` takes what was collected from one job."""

    text: str
    answer: Callable[[_Answers], str]


def compare_answers(found: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return a line for each answer to each question; isolations that agree share a line.

    found: what was collected from one job, by isolation.
    """
    width = len(", ".join(found))
    return {
        question.text: [
            f"{', '.join(isolations):<{width}}  {answer}"
            for answer, isolations in _isolations_by_answer(question, found).items()
        ]
        for question in QUESTIONS
    }


def _isolations_by_answer(
    question: ProbeQuestion, found: Mapping[str, Any]
) -> dict[str, list[str]]:
    isolations: dict[str, list[str]] = {}
    for isolation, answers in found.items():
        isolations.setdefault(question.answer(answers), []).append(isolation)
    return isolations


def _each(read: Callable[[Any], Any]) -> Callable[[_Answers], str]:
    """Return a function that gives one answer if all hosts agree, else one per host."""

    def answer(answers: _Answers) -> str:
        found = {host: str(read(seen)) for host, seen in answers["hosts"].items()}
        if len(found) > 1 and len(set(found.values())) == 1:
            return next(iter(found.values()))
        return "; ".join(f"{host}: {text}" for host, text in found.items())

    return answer


def _listed(items: Any) -> str:
    return ", ".join(map(str, items)) or "none"


def _numbering(answers: _Answers) -> str:
    hosts = _listed(f"{host} is {seen['group']}" for host, seen in answers["hosts"].items())
    return f"{hosts}; requested were {_listed(answers['job']['requested_groups'])}"


def _shards(seen: Any) -> str:
    return _listed(seen["platform"]["channels"].get("sharded", ()))


def _wildcard(answers: _Answers) -> str:
    bound = [
        host
        for host, seen in answers["hosts"].items()
        if seen["platform"]["meeting"].get("bound_wildcard_port")
    ]
    return "yes" if len(bound) == len(answers["hosts"]) else f"no, only {len(bound)} of them did"


def _ending(answers: _Answers) -> str:
    meetings = [seen["platform"]["meeting"] for seen in answers["hosts"].values()]
    main = next((each for each in meetings if "went_on_for_seconds" in each), None)
    if main is None or not main["saw_helper_leave"]:
        return "the main host did not see the helper leave"
    after = main["after_helper_left"]
    name = "still resolves" if after["resolves"] else "does not resolve"
    return (
        f"the job is {answers['job']['status']}; the main host went on for "
        f"{main['went_on_for_seconds']:g} s; a connection to the helper gives "
        f"{after['connecting_gives']}, and its name {name}"
    )


def _archives(answers: _Answers) -> str:
    return "; ".join(
        f"{name} has {_listed(each['files'])}, and same-name.txt is of {each['same_name_is_of']}"
        for name, each in answers["job"]["archives"].items()
    )


def _addresses(seen: Any) -> str:
    pairs = seen["platform"]["addresses"].items()
    return _listed(f"{host} is {address or 'unknown'}" for host, address in pairs)


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"


def _space(seen: Any, name: str) -> str:
    size = seen["machine"][name]
    return f"{_gib(size['total'])}, {_gib(size['free'])} free" if size else "there is none"


def _power(seen: Any) -> str:
    own = seen["machine"]
    gpus = _listed(own["accelerators"])
    return f"{own['cpus']['ours']} CPUs, {_gib(own['memory'])}, accelerators: {gpus}"


def _software(seen: Any) -> str:
    own, user = seen["machine"], seen["machine"]["user"]
    first = "is" if seen["platform"]["is_process_1"] else "is not"
    return (
        f"Python {own['python']} on {own['distribution']}, kernel {own['kernel']}, as user "
        f"{user['uid']}; the program {first} process 1 and starts in "
        f"{seen['platform']['folder_at_start']}"
    )


def _limits(seen: Any) -> str:
    limits = seen["machine"]["limits"].items()
    return _listed(f"{name} {'unlimited' if soft < 0 else soft}" for name, (soft, _) in limits)


QUESTIONS = (
    ProbeQuestion("How are hosts numbered over the groups?", _numbering),
    ProbeQuestion(
        "Which channels does a host see?", _each(lambda seen: _listed(seen["platform"]["channels"]))
    ),
    ProbeQuestion("How is a sharded channel dealt out over groups?", _each(_shards)),
    ProbeQuestion(
        "Which files are in input/config?", _each(lambda seen: _listed(seen["platform"]["config"]))
    ),
    ProbeQuestion("What is a host's own name?", _each(lambda seen: seen["platform"]["hostname"])),
    ProbeQuestion("Do the names of hosts resolve?", _each(_addresses)),
    ProbeQuestion("Can every host bind the same port on all its addresses?", _wildcard),
    ProbeQuestion("What happens when a helper host ends first, with exit code 0?", _ending),
    ProbeQuestion("What is left of the hosts' files?", _archives),
    ProbeQuestion(
        "Which states does the job go through?", lambda all_: _listed(all_["job"]["states"])
    ),
    ProbeQuestion("How large is /dev/shm?", _each(lambda seen: _space(seen, "shm"))),
    ProbeQuestion("How large is the disk of /opt/ml?", _each(lambda seen: _space(seen, "disk"))),
    ProbeQuestion("What does the machine have?", _each(_power)),
    ProbeQuestion("What runs there, as whom?", _each(_software)),
    ProbeQuestion("What is mounted?", _each(lambda seen: _listed(seen["machine"]["mounts"]))),
    ProbeQuestion(
        "Which limits does a process have (soft)?",
        _each(_limits),
    ),
    ProbeQuestion(
        "Which variables are in the environment?",
        _each(lambda seen: _listed(seen["platform"]["environment"])),
    ),
)
