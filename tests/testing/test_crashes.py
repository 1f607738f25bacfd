"""The crash kit: what survives passes, and what is broken is caught, with the step after which it went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from standfast import ConfigurationError
from standfast.application.wings import store_at
from standfast.testing import CrashReport, Scenario, crash_everywhere
from standfast.testing.crash_report import Run
from standfast.testing.crashes import CrashKit, evenly, needed
from standfast.testing.fresh import fresh, room
from standfast.testing.frozen_clock import LapsingClock
from standfast.testing.kill_steps import Step
from standfast.testing.nursery import Nursery, nursery
from standfast.testing.scenario import name_of
from standfast.testing.verdict import VANISHED, Fate, Finding, Verdict, judge
from tests.testing import crash_scenarios, threaded_scenario
from tests.testing.crash_scenarios import (
    Application,
    Assumes,
    Breaks,
    Called,
    Careful,
    Completes,
    FollowedUp,
    Hangs,
    Idle,
    Keyless,
    Kills,
    Ledger,
    Looks,
    Mute,
    Readme,
    Refuses,
    RefusesLate,
    RefusesOne,
    Requests,
    Silent,
    Stepped,
    Swallows,
    Tickets,
    Twice,
    Undeclares,
    Unnamed,
    Verified,
)

SURVIVING: list[type[Scenario]] = [
    *(Tickets, Called, Requests, Ledger, Verified, FollowedUp, Readme, Stepped, Looks, Careful, Application, Kills),
]

NEVER_AGAIN = [Verified, Looks, Careful]
"""Whoever looks first, or leaves it to a person, does nothing twice."""


@pytest.fixture(scope="module")
def children() -> Iterator[Nursery]:
    """Start the warm process once: it takes longer than all that it is asked here."""
    with nursery(*needed("postgresql://"), crash_scenarios.__name__) as warm:
        yield warm


@pytest.fixture
def crash(children, tmp_path):
    """Crash a scenario at one step."""

    def crash(scenario: type[Scenario], only: str = "", url: str | None = None, patience: float = 30.0) -> CrashReport:
        kit = CrashKit(name_of(scenario), tmp_path, url, children, patience)
        return kit.sweep([only], most=1, parallel=1)

    return crash


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str | None:
    return None if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))


# --- what survives


def test_a_crash_after_the_effect_doubles_it_on_record():
    report = crash_everywhere(Tickets, only="after effect ticket #1")
    assert report.clean, report
    assert report.steps[0] == "before commit #1 (publish)"
    assert [str(found) for found in report.recorded] == [
        "after effect ticket #1: ticket t-0 happened 2 times, as its job's history had said it may"
    ]
    assert [run.reached for run in report.runs] == [True, True]


def test_a_request_that_arrived_is_sent_again_with_its_key_and_on_record(crash):
    report = crash(Requests, only="after request feedback #1")
    assert report.clean, report
    assert any("happened 2 times" in str(found) for found in report.recorded)
    assert {step.rpartition(" #")[0] for step in report.steps} == {
        "before commit",
        "after commit",
        "before handler http",
        "after handler http",
        "before request feedback",
        "after request feedback",
    }


def test_a_sender_that_is_killed_before_its_request_is_written_down_sends_it_again(crash):
    report = crash(Requests, only="before request feedback #1")
    assert report.clean, report
    assert not [found for found in report.recorded if report.runs[1].note in str(found)]


@pytest.mark.parametrize(
    ("scenario", "only", "jobs"),
    [(Tickets, "after commit #3", 2), (Keyless, "before commit #3", 2), (Keyless, "after commit #3", 3)],
)
def test_a_producer_that_got_no_answer_enqueues_again(crash, scenario, only, jobs):
    report = crash(scenario, only=only)
    assert report.clean, report
    assert "enqueue" in report.runs[1].note
    assert report.runs[1].states == {"completed": jobs}


def test_what_has_its_receipt_in_the_ledger_is_not_done_again(crash):
    report = crash(Ledger, only="before effect mail #1")
    assert report.clean, report
    assert f"ticket {report.runs[1].note}" not in [found.finding.about for found in report.recorded]


def test_what_a_verifier_finds_is_not_done_again(crash):
    report = crash(Verified, only="after effect ticket #1")
    assert report.clean, report
    assert not report.recorded
    assert report.runs[1].states == {"completed": 2}


@pytest.mark.parametrize(
    "only",
    ["before effect ticket #1", "after effect ticket #1", "behind the ticket #1", "behind the mail #1"],
)
def test_the_mail_behind_a_ticket_is_sent_wherever_its_handler_is_killed(crash, url, only):
    """Before and after the effect, after its receipt, and after the follow-up is enqueued."""
    report = crash(FollowedUp, url=url, only=only)
    assert report.clean, report
    assert (report.runs[1].reached, report.runs[1].states) == (True, {"completed": 4})
    assert not [found for found in report.recorded if "ticket" in found.finding.about.split()[0]]


def test_the_readme_s_example_survives_a_kill_between_the_ticket_and_its_receipt(crash, url):
    """Every other step is in `test_every_step_is_survived`."""
    report = crash(Readme, url=url, only="after effect ticket #1")
    assert report.clean, report
    assert (report.runs[1].states, report.recorded) == ({"completed": 4}, ())


@pytest.mark.parametrize("only", ["before effect build #1", "after effect fetch #1", "after effect ship #1"])
def test_a_kill_after_a_recorded_step_is_not_counted_and_a_cut_off_step_is_on_record(crash, url, only):
    """One attempt is allowed without progress: a kill before the first step's record would end the job."""
    report = crash(Stepped, url=url, only=only)
    assert report.clean, report
    expected = {"dead": 1} if "fetch" in only else {"completed": 1}
    assert (report.runs[1].reached, report.runs[1].states) == (True, expected)


def test_what_is_never_repeated_by_itself_is_dead_and_not_lost(crash):
    report = crash(Careful, only="before effect ticket #1")
    assert report.clean, report
    assert report.runs[1].states == {"dead": 2}


def test_an_application_s_own_queue_is_put_on_the_run_s_store(crash):
    report = crash(Application, only="after commit #4")
    assert report.clean, report
    assert report.runs[1].states == {"completed": 2}


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("scenario", SURVIVING)
def test_every_step_is_survived(scenario, url):
    report = crash_everywhere(scenario, url=url)
    assert report.clean, report
    assert len(report.runs) > len(report.steps)
    reached = [run for run in report.runs if run.reached]
    assert len(reached) > len(report.steps) * 0.8, "the kills hit nothing"
    assert not (report.recorded and scenario in NEVER_AGAIN)


@pytest.mark.long
def test_a_module_with_threads_is_not_forked():
    report = crash_everywhere(threaded_scenario.Threaded, most=3)
    assert report.clean, report


# --- what is broken


def test_a_handler_that_takes_a_second_attempt_for_success_is_caught(crash, url):
    report = crash(Assumes, url=url, only="before effect ticket #2")
    assert not report.clean
    assert [str(found) for found in report.lost] == [
        "before effect ticket #2: ticket t-1 is missing, and its job is completed"
    ]
    assert 'crash_everywhere(Assumes, only="before effect ticket #2")' in str(report)


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        (Twice, "ticket t-0 happened 2 times, and its job's history accounts for 1"),
        (Swallows, "ticket t-0 is missing, and its job is completed"),
    ],
)
def test_what_goes_wrong_without_a_kill_is_told_at_once(crash, scenario, words):
    report = crash(scenario)
    assert not report.clean
    assert len(report.runs) == 1
    assert words in str(report)
    assert "without any kill" in str(report)


def test_a_handler_that_hangs_after_a_crash_is_caught(crash):
    report = crash(Hangs, only="after effect ticket #1", patience=0.5)
    assert report.unsettled
    assert not report.clean
    assert "not everything was settled within 0.5 s" in str(report)


# --- what cannot be judged


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        (Breaks, "RuntimeError: no such thing"),
        (Idle, "enqueues nothing"),
        (Silent, r"even without a kill, because its jobs did not complete:\n  1 stopped by max_attempts.*never "),
        (Mute, r"even without a kill: have its handlers call world.happened\(name, job\)"),
        (Undeclares, r"2 stopped by undeclared_effect: .*declares no effects; to use 'ticket', write @sf.handler\("),
        (Unnamed, "names no effects"),
        (Tickets(), "not <tests"),
        ("tests.testing.crash_scenarios:Tickets", "is a class"),
    ],
)
def test_a_scenario_that_cannot_be_judged_is_refused(crash, scenario, words):
    with pytest.raises(ConfigurationError, match=words):
        crash(scenario)


@pytest.mark.parametrize("slip", ["before effect tickt #1", "before effect ticket #9"])
def test_a_step_that_does_not_exist_is_no_clean_report(crash, slip):
    with pytest.raises(
        ConfigurationError, match=f"only='{slip}' is not a step of .*the nearest are.* 'before effect ticket #1'"
    ):
        crash(Tickets, only=slip)


def test_a_report_says_why_jobs_did_not_complete():
    calm = Run(None, Verdict(), states={"dead": 3}, failures={"timeout: no answer": 2, **dict.fromkeys("abcdef", 1)})
    said = str(CrashReport("Tickets", "SQLite", (), (calm, calm)))
    assert "\n  4 stopped by timeout: no answer\n  2 stopped by a\n" in said
    assert "and for 2 more reasons" in said


def test_a_scenario_inside_a_function_is_refused():
    class Inside(Tickets):
        pass

    with pytest.raises(ConfigurationError, match="move the class to the top of a module"):
        crash_everywhere(Inside)


def test_a_store_in_memory_is_refused():
    with pytest.raises(ConfigurationError, match="cannot survive a crash"):
        crash_everywhere(Tickets, url=":memory:")


# --- where


def test_each_run_has_a_store_of_its_own_beside_the_file_that_was_named(tmp_path):
    named = f"sqlite:///{tmp_path / 'mine.db'}"
    with room(named) as directory, fresh(named, directory / "one") as one, fresh(named, directory / "two") as two:
        assert directory.parent == tmp_path
        assert one != two
        assert one.startswith(str(directory))
    assert list(tmp_path.iterdir()) == []


def test_a_schema_of_a_run_is_dropped(postgres_url, tmp_path):
    with fresh(postgres_url, tmp_path) as url:
        store = store_at(url)
        store.open()
        assert store.location.schema_version() > 0
        store.close()
    assert store_at(url).location.schema_version() == 0


def test_the_time_that_was_let_pass_outlives_the_process(tmp_path):
    before = LapsingClock(tmp_path / "time")
    now = before.elapsed(), before.wall(), before.of_server(0.0)
    before.advance(3600)
    for clock in (before, LapsingClock(tmp_path / "time")):
        after = clock.elapsed(), clock.wall(), clock.of_server(0.0)
        assert all(3600 <= late - early < 3660 for late, early in zip(after, now, strict=True))


# --- the verdict

TICKET = ("ticket", "t-1")


@pytest.mark.parametrize(
    ("state", "times", "noted", "found"),
    [
        ("completed", 1, 0, {}),
        ("completed", 1, 3, {}),
        ("completed", 0, 0, {"lost": 1}),
        ("completed", 2, 0, {"doubled": 1}),
        ("completed", 2, 1, {"recorded": 1}),
        ("completed", 3, 1, {"doubled": 1}),
        ("dead", 0, 0, {}),
        ("dead", 1, 0, {}),
        ("dead", 2, 0, {"doubled": 1}),
        ("dead", 2, 1, {"recorded": 1}),
        ("cancelled", 0, 0, {}),
        ("held", 0, 0, {}),
        ("queued", 0, 0, {"unsettled": 1}),
        (VANISHED, 0, 0, {"lost": 1}),
    ],
)
def test_verdicts(state, times, noted, found):
    fate = Fate("1", state, settled=state != "queued", expects=[] if state == VANISHED else [TICKET], noted=noted)
    verdict = judge([fate], Counter({TICKET: times} if times else {}))
    counted = {name: len(getattr(verdict, name)) for name in ("lost", "doubled", "recorded", "unsettled")}
    assert {name: count for name, count in counted.items() if count} == found


def test_two_jobs_that_share_an_effect_each_owe_one():
    fates = [Fate(each, "completed", settled=True, expects=[TICKET]) for each in "12"]
    assert judge(fates, {TICKET: 2}) == Verdict()
    assert judge(fates, {TICKET: 1}).lost
    assert judge(fates, {TICKET: 3}).doubled


def test_an_effect_that_nobody_asked_for_may_happen_but_once():
    assert judge([], {TICKET: 1}) == Verdict()
    assert judge([], {TICKET: 2}).doubled


# --- the report


def test_the_report_names_the_step_and_how_to_run_it_again():
    wrong = Verdict(lost=(Finding("ticket t-1", "is missing, and its job is completed"),))
    runs = (
        Run(None, Verdict(), states={"completed": 1}),
        Run("before commit #1", Verdict(), reached=False, states={"completed": 1}),
        Run("after commit #1", wrong, note="claim", states={"completed": 1}),
    )
    report = CrashReport("app:Tickets", "SQLite", ("before commit #1", "after commit #1 (claim)"), runs)
    assert str(report).splitlines() == [
        "app:Tickets on SQLite: 2 steps, every one with a run that was killed there",
        "1 of these steps did not come by again: their runs ended without a kill",
        "lost 1, doubled without a record 0, doubled on record 0, unsettled 0",
        "jobs ended: completed 3",
        "  after commit #1 (claim)  ticket t-1 is missing, and its job is completed",
        '                           this one again: crash_everywhere(Tickets, only="after commit #1")',
    ]
    assert repr(report) == str(report)


def test_a_long_report_is_cut():
    wrong = Verdict(unsettled=(Finding("job 1", "is still running"),))
    report = CrashReport("app:Tickets", "SQLite", (), tuple(Run(f"step #{n}", wrong) for n in range(25)))
    assert str(report).splitlines()[-1] == "  and 5 more: see report.runs"


# --- steps


def test_a_step_is_read_as_it_is_written():
    step = Step("after commit", 7, "apply, claim")
    assert str(step) == "after commit #7 (apply, claim)"
    assert Step.read(str(step)).name == Step.read("after commit #7").name == step.name


@pytest.mark.parametrize("name", ["", "commit", "commit 7", "#7", "commit #x"])
def test_what_names_no_step_is_refused(name):
    with pytest.raises(ConfigurationError, match="names no step"):
        crash_everywhere(Tickets, only=name)


@pytest.mark.parametrize(
    ("most", "chosen"), [(1, [0]), (2, [0, 9]), (4, [0, 3, 6, 9]), (10, list(range(10))), (99, list(range(10)))]
)
def test_of_too_many_steps_some_are_chosen_evenly(most, chosen):
    assert evenly([str(n) for n in range(10)], most) == [str(n) for n in chosen]


def test_the_nursery_tells_what_its_children_cannot_import(children):
    with pytest.raises(ConfigurationError, match="a child process cannot import 'nowhere':") as refused:
        children.warm_up(("nowhere",))
    assert "No module named 'nowhere'" in str(refused.value)


# --- jobs that are meant to die


@pytest.mark.parametrize("scenario", [Refuses, RefusesLate, RefusesOne])
def test_a_job_that_is_meant_to_die_is_not_lost(crash, url, scenario):
    report = crash(scenario, only="before handler tickets #1", url=url)
    report.check()
    assert set(report.runs[1].states) <= {"dead", "completed"}
    assert all(run.states["dead"] for run in report.runs)


def test_a_job_that_should_have_died_and_did_not_is_reported(crash):
    report = crash(Completes)
    assert "is completed, and is expected to be dead" in str(report)
    with pytest.raises(AssertionError, match="ended otherwise than expected 2"):
        report.check()


def test_check_says_nothing_of_a_clean_report_and_raises_the_table_of_another():
    clean = CrashReport("app:Tickets", "SQLite", (), (Run(None, Verdict()),))
    clean.check()
    lost = Verdict(lost=(Finding("ticket t-1", "is missing, and its job is completed"),))
    broken = CrashReport("app:Tickets", "SQLite", (), (Run(None, lost),))
    with pytest.raises(AssertionError) as raised:
        broken.check()
    assert str(raised.value) == str(broken)
