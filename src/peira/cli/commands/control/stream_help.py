"""The help of each action of `peira stream`."""

from __future__ import annotations

from peira.cli.help_pages import HelpPage

JOB = ("name", "job")
PAGES = {
    "list": HelpPage(
        "[NAME]",
        "List the jobs of a stream, newest first; without a name, all streams of the store.",
        ("name",),
        ("state", "limit"),
        ("peira stream", "peira stream list support --state waiting"),
    ),
    "submit": HelpPage(
        "NAME",
        "Submit a job, or many (--jobs). It is durable when this returns, whether or not a host is there; "
        "the same key is the same job.",
        ("name",),
        ("input", "key", "priority", "group", "expected", "jobs", "wait"),
        (
            "peira stream submit support --input '{\"customer\": 7}' --key t-1",
            "peira stream submit support --input - --wait 5s < ticket.json",
            "peira stream submit support --jobs tickets.jsonl",
        ),
    ),
    "wait": HelpPage(
        "NAME JOB",
        "Wait until a job has ended. Exits with 0 if it succeeded, 1 if it ended otherwise, 3 if it has not "
        "ended within the time.",
        JOB,
        ("timeout",),
        ("peira stream wait support t-1 --timeout 5s", "peira stream wait support t-1 --timeout 0"),
    ),
    "show": HelpPage(
        "NAME JOB",
        "Show a job: what was submitted, its state, its output, and what was reported of it.",
        JOB,
        examples=("peira stream show support t-1",),
    ),
    "cancel": HelpPage(
        "NAME JOB",
        "Cancel a job, in whatever state it is. Exits with 1 if it had ended before.",
        JOB,
        examples=("peira stream cancel support t-1",),
    ),
    "pause": HelpPage(
        "NAME",
        "Begin no more jobs until it is resumed; what runs is finished, and jobs may be submitted.",
        ("name",),
    ),
    "resume": HelpPage("NAME", "Let a stream that was paused go on.", ("name",)),
    "drain": HelpPage(
        "NAME",
        "Let the host finish the jobs that it has taken, and then end the stream; what comes now is for the "
        "next host.",
        ("name",),
    ),
    "stats": HelpPage(
        "NAME",
        "Show whether a host serves the stream, its jobs by state, and of the last hour: how long jobs "
        "waited and ran, how many ended, what they cost, and the share that failed with its 95% interval.",
        ("name",),
    ),
    "events": HelpPage(
        "NAME [JOB]",
        "Print what happened, in order, as a JSON document a line; each has a cursor, from which "
        "--after goes on.",
        JOB,
        ("level", "kinds", "after", "follow"),
        ("peira stream events support --level jobs --follow", "peira stream events support t-1"),
    ),
    "decisions": HelpPage("NAME [JOB]", "List what agents decided in jobs, and why.", JOB),
    "goals": HelpPage(
        "NAME",
        "Say how the goals of a stream stand: met, missed or undecided, valid at every look.",
        ("name",),
    ),
    "results": HelpPage(
        "NAME",
        "Show the results of the ended jobs as those of a run, over a window of time; compare the levels of "
        "a factor, or write the report.",
        ("name",),
        ("since", "by", "score", "output"),
        (
            "peira stream results support --since 7d --by model",
            "peira stream results support --since 24h -o today.html",
        ),
    ),
    "outcome": HelpPage(
        "NAME JOB OUTCOME VALUE",
        "Report what became of a job, also long after its end: it is among the scores in the results. The "
        "last report of a name counts.",
        (*JOB, "outcome", "value"),
        examples=("peira stream outcome support t-1 bought true",),
    ),
    "decide": HelpPage(
        "NAME ARM",
        "End an experiment by hand: all jobs get that arm from then on, and who decided is recorded.",
        JOB,
        ("why",),
        ('peira stream decide support small --why "cheaper, and as good"',),
    ),
}
"""The help of each action."""
