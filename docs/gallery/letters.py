"""People choose between two answers, and grade them: the inbox."""

from peira import Case, ask_person, person, study

better = person("Which answer is kinder?", against="expected", raters=2, label="kinder", to="editors")
clear = person("Is it clear?", scale=[0, 1, 2, 3], raters=2, label="clear", to="editors")


@study(
    title="Letters to customers",
    cases=[
        Case(
            f"The lamp of {name} came broken.", expected=f"Dear {name}, we are sorry. Keep the lamp.", id=name
        )
        for name in ("Ann", "Ben", "Cleo")
    ],
    evaluators=[better, clear],
)
def letters(case):
    """Write a letter, and let an editor decide about the first one."""
    letter = f"Hello {case.id},\n\na **new lamp** is on its way.\n\n- no need to send anything back"
    if case.id == "Ann":
        ask_person(
            "Send this letter?",
            show=letter,
            options=["send", "drop"],
            to="editors",
            within="2d",
            otherwise="drop",
        )
    return letter
