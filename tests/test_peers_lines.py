"""What `gossamer peers up` writes into a log: every piece of news once, and waiting seldom."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

pytest.importorskip("msgspec", reason="needs the extra `peers`")
from gossamer.cli.peers import view_of
from gossamer.cli.peers_lines import LONG, TENTHS, Lines, certificates_in, say, words_in


class World:
    """Statuses of three learners that a test changes, a clock that it moves, and what was said since it last asked."""

    def __init__(self):
        self.now, self.heard = 0.0, []
        self.lines = Lines(self.heard.append, lambda: self.now)
        self.statuses = [{"folder": f"learner-{i}", "state": "not started"} for i in range(3)]

    def at(self, i, **values):
        self.statuses[i].update(values)

    def all(self, **values):
        for one in self.statuses:
            one.update(values)

    def said(self, after=0.0):
        self.now += after
        self.heard.clear()
        self.lines.look(self.statuses)
        return list(self.heard)


@pytest.fixture
def world():
    return World()


def test_starts_returns_and_ends_get_a_line_each(world):
    assert world.said() == []
    world.all(state="running", life=1, round=0, steps=200)
    assert world.said() == [f"learner {i} starts in round 0 of 200" for i in range(3)]
    assert world.said(60) == []
    world.at(1, life=2, round=7)
    assert world.said() == ["learner 1 comes back in round 7 of 200"]
    world.at(2, state="failed", why="the disk\x1b[2J is full")
    assert world.said() == ["learner 2 has failed: the disk\x1b[2J is full"]
    world.at(0, state="done", round=200, errors={"loss": 0.1, "accuracy": 0.9}, epsilon=[2.0, 3.0])
    assert world.said() == ["learner 0 is done in round 200 of 200, accuracy 0.900, ε spent 2"]
    assert world.said(60) == []


def test_against_whom_epsilon_holds_is_said_once_and_what_others_could_do_beside_it(world):
    whom = "against anybody who sees all messages, together with up to 2 other learners"
    world.all(state="running", life=1, round=0, steps=200, against=whom)
    assert world.said().count(f"ε holds {whom}.") == 1
    assert world.said(60) == []
    world.at(1, uncancelled=["Noise of pairs did not cancel in rounds 7-9 (learner 0 was late)."])
    world.at(2, uncancelled=["Noise of pairs did not cancel in rounds 7-9 (learner 0 was late)."])
    assert world.said() == ["Noise of pairs did not cancel in rounds 7-9 (learner 0 was late)."]
    world.at(0, state="done", round=200, epsilon=[2.0, 3.0, 5.0])
    assert world.said() == ["learner 0 is done in round 200 of 200, ε spent 2 (5 if all others collude)"]
    for one in world.statuses:
        one.update(epsilon=[2.0, 3.0, 5.0])
    shown = Console(width=120, file=io.StringIO())
    shown.print(view_of(world.statuses))
    text = shown.file.getvalue()
    assert "if all others collude" in text
    assert f"ε holds {whom}." in text
    assert text.count("rounds 7-9") == 1


def test_releases_are_named_where_they_are_several(world):
    for i in range(3):
        world.at(i, learner=i, release="0.3.0", releases={str((i + 1) % 3): "0.3.0"})
    assert world.said() == []
    world.at(0, releases={"1": "0.3.0", "7": "", "9": "0.4\x1b[2J"})
    sentence = (
        "Learners run several releases of gossamer: one that says no version at 7; 0.3.0 at 0, 1, 2; 0.4\x1b[2J at 9."
    )
    assert world.said() == [sentence]
    assert world.said(60) == []
    shown = Console(width=200, file=io.StringIO())
    shown.print(view_of(world.statuses))
    assert sentence.replace("\x1b", "?") in shown.file.getvalue()


def test_why_a_learner_has_failed_is_a_sentence_beneath_the_table(world):
    """In the table it would have stood in a column of words, one below the other."""
    world.at(2, state="failed", why="the journal began with other settings.")
    shown = Console(width=80, file=io.StringIO())
    shown.print(view_of(world.statuses))
    assert "• learner 2: the journal began with other settings." in shown.file.getvalue()


def test_every_tenth_of_the_run_gets_a_line_with_the_slowest_round(world):
    world.all(state="running", life=1, round=0, steps=95)
    world.said()
    heard = []
    for t in range(96):
        for i, one in enumerate(world.statuses):
            one.update(round=min(95, t + 4 * i), errors={"loss": 1.0, "R²": t / 100 + i / 10}, epsilon=[t / 50, 8.0])
        heard += world.said()
    assert len(heard) == TENTHS
    assert heard[0] == "round 10 of 95 is reached by all, R² 0.100 to 0.300, ε spent 0.2"
    assert heard[-1] == "round 95 of 95 is reached by all, R² 0.950 to 1.150, ε spent 1.9"


def test_waiting_is_said_when_it_lasts_and_then_ever_more_seldom(world):
    world.all(state="running", life=1, round=3, steps=1000)
    world.said()
    world.at(0, state="waiting", waits_for=[1, 2])
    assert world.said() == []
    assert world.said(LONG) == [f"learner 0 waits for learners 1, 2 in round 3 of 1000, for {LONG:.0f} s so far"]
    heard = [line for _ in range(3600) for line in world.said(1)]
    assert 5 < len(heard) < 12
    world.at(0, state="running", round=4)
    assert world.said() == ["learner 0 goes on in round 4 of 1000"]


def test_the_file_that_is_waited_for_is_named(world):
    world.all(state="running", life=1, round=0, steps=10)
    world.said()
    world.at(1, state="waiting for records", file="study/learner-1/records.csv")
    heard = world.said(0) + world.said(9)
    assert heard == ["learner 1 waits for records in study/learner-1/records.csv in round 0 of 10, for 9 s so far"]


def test_records_that_come_slowly_do_not_fill_a_log(world):
    world.all(state="running", life=1, round=0, steps=10_000)
    world.said()
    heard = []
    for t in range(900):  # a record every ten seconds
        world.at(1, state="waiting for records", round=t)
        heard += world.said(0) + world.said(9)
        world.at(1, state="running")
        heard += world.said(1)
    assert heard[0] == "learner 1 waits for records in round 0 of 10000, for 9 s so far"
    assert len(heard) <= 4


def test_a_difference_that_both_ends_name_is_said_once(world):
    world.all(state="waiting", life=1, round=0, steps=10)
    world.at(0, differs={"1": "they differ"})
    world.at(1, differs={"0": "they differ"})
    assert world.said()[3:] == ["settings differ: they differ"]
    assert world.said(1) == []


def test_a_line_has_no_control_characters(capsys):
    say("a\x1b[2Jb\nc\u202ed")
    assert capsys.readouterr().out == "a?[2Jb?c?d\n"


def test_a_certificate_that_ends_and_one_that_is_not_taken_are_said():
    running = {"state": "running", "folder": "learner-3", "learner": 3}
    (ends,) = certificates_in([running | {"certificate_days_left": 6.6}, running | {"certificate_days_left": 200.0}])
    assert ends == "The certificate of learner 3 ends in 6 days; gossamer party renew asks for another."
    (ended,) = certificates_in([running | {"certificate_days_left": -1.0}])
    assert "links that stand go on, and new ones fail" in ended
    (why,) = certificates_in([running | {"credentials": "it is another's."}])
    assert why == "Learner 3 does not take what its folder has: it is another's."
    assert not certificates_in([running | {"state": "done", "certificate_days_left": 1.0}, {"state": "not started"}])


def test_words_are_said_once_where_all_have_the_same():
    one, other = ({"state": "running", "folder": f"learner-{i}", "learner": i} for i in range(2))
    assert words_in([one | {"fingerprint": "acorn zodiac"}, other | {"fingerprint": "acorn zodiac"}, other]) == [
        "Words to compare: acorn zodiac."
    ]
    first, second = words_in([one | {"fingerprint": "acorn zodiac"}, other | {"fingerprint": "ruby fox"}])
    assert first.startswith("Words of learner 0: acorn zodiac")
    assert second.startswith("Words of learner 1: ruby fox")
    assert words_in([{"state": "not started", "folder": "learner-0"}]) == []
