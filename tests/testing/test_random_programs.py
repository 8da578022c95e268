"""Random programs: sound backends pass, broken ones are found, and the program that shows it is short and runs."""

from __future__ import annotations

import pytest
from mutants import Mutant, group_descriptions, reading, resolving, seeking, staging, unusual_input
from mutants.trial import harness_of
from programs_by_day import check_some_programs

from mqplug_testing import harness_for
from mqplug_testing.model import RULES
from mqplug_testing.programs import Findings, UnreadableCorpus, check_programs, replay
from mqplug_testing.programs.corpus import Corpus, Entry

PATIENCE = 10.0
SHORT = 0.2  # where a message that does not come is what is looked for
BROKEN = {  # and the rules of which the first program may break any
    reading.NoneBecomesEmpty: {"content"},
    seeking.SeekForgetsTheGroup: {"positions", "lag", "ack", "order", "seek"},
    seeking.LowStays: {"trim"},
    seeking.BoundIsNext: {"bounds"},
    group_descriptions.RenamesMembers: {"member-name", "busy"},
    resolving.CountsBetween: {"exact", "never-more"},
    staging.TellsOnlyTheFirst: {"placed"},
    unusual_input.SharersGetNone: {"content"},
}
MOST_STEPS = 12
MOST_UNCHECKED = 10  # rules, in a short run without outages


@pytest.mark.parametrize("url", ["memory", "memory://?like=kafka", "memory://?like=pulsar"])
def test_a_sound_backend_breaks_no_rule(url):
    """Random programs over the memory backend, and what it imitates, break no rule."""
    with harness_for(url) as harness:
        found = check_programs(harness, 60, 1, programs=60, patience=PATIENCE)
    assert found.failure is None, found.failure.program(url)
    assert found.programs == 60
    assert len(found.pairs) > 10 * found.operations


def test_programs_of_the_day_break_no_rule():
    """Ten seconds of random programs break no rule."""
    with harness_for("memory") as harness:
        check_some_programs(harness, "memory", 10)


def run_as_pasted(text):
    """Run a program, and close its clients."""
    names = {}
    exec(compile(text, "pasted", "exec"), names)
    for client in ("mq", "other"):
        if client in names:
            names[client].close()


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_backend_is_found(kind, capsys):
    """The report on a backend with one defect names the rule, and has a program of few steps that runs by itself."""
    with harness_of(kind("mutant")) as harness:
        found = check_programs(harness, 600, 1, programs=300, patience=SHORT)
        assert found.failure is not None
        text = found.failure.program("mutant://pasted")
        run_as_pasted(text)
    assert found.failure.broken.rule in BROKEN[kind]
    assert RULES[found.failure.broken.rule] in text
    assert "# allowed: " in text
    assert len(found.failure.steps) <= MOST_STEPS
    assert capsys.readouterr().out


def test_a_failing_program_runs_again():
    """The steps of a failure break the same rule again, and none over a sound backend."""
    with harness_of(reading.NoneBecomesEmpty("mutant")) as harness:
        found = check_programs(harness, 600, 1, programs=300, patience=SHORT)
        again = replay(harness, found.failure.steps, patience=SHORT)
    assert again.broken.rule == found.failure.broken.rule
    with harness_for("memory") as harness:
        assert replay(harness, found.failure.steps, patience=SHORT).broken is None


def test_the_same_seed_draws_the_same_programs():
    """Two runs with one seed make the same steps, another seed makes others."""
    pairs = []
    for seed in (1, 1, 2):
        with harness_for("memory") as harness:
            pairs.append(check_programs(harness, 60, seed, programs=5, patience=PATIENCE).pairs)
    assert pairs[0] == pairs[1]
    assert pairs[0] != pairs[2]


def test_the_result_counts_what_was_done():
    """The result names the programs, the steps, the pairs of operations, the rules, and the seed."""
    with harness_for("memory") as harness:
        found = check_programs(harness, 60, 3, programs=2, patience=PATIENCE)
    told, _, never = str(found).partition("\n")
    assert told.startswith(f"2 programs, {found.steps} steps, {len(found.pairs)} of ")
    assert told.endswith(f"{len(found.rules)} of {len(RULES)} rules, --seed 3")
    assert never == f"rules that were never checked: {', '.join(found.unchecked)}"
    assert found.rules.keys() | set(found.unchecked) == RULES.keys()
    assert found.rules["id"] > 0


def test_rare_pairs_are_preferred():
    """In a short run over memory, more than every fifth step makes a new pair, and nearly all rules are checked."""
    with harness_for("memory") as harness:
        found = check_programs(harness, 60, 5, programs=35, patience=PATIENCE)
    assert len(found.pairs) > found.steps / 5
    assert len(found.unchecked) <= MOST_UNCHECKED, found.unchecked


# the corpus ------------------------------------------------------------------------------------------------


def found_with(kind, corpus, programs=300):
    """Run random programs with a corpus over a backend that is called "mutant"."""
    with harness_of(kind("mutant")) as harness:
        return check_programs(harness, 600, 1, programs=programs, patience=SHORT, corpus=corpus)


def test_a_program_that_broke_a_rule_is_repeated_first(tmp_path):
    """The next run with the same file begins with the shrunk program, and ends if it breaks a rule again."""
    corpus = tmp_path / "new" / "corpus.jsonl"
    first, second = (found_with(reading.NoneBecomesEmpty, corpus) for _ in range(2))
    assert (first.repeated, second.repeated, second.programs) == (0, 1, 0)
    assert second.failure.broken.rule == first.failure.broken.rule
    assert second.failure.steps == first.failure.steps
    (entry,) = Corpus(corpus).of("mutant")
    assert entry == Entry("mutant", "content", f"1/{first.programs - 1}", first.failure.steps)


def test_a_corpus_stays_when_its_programs_pass(tmp_path):
    """A repaired backend runs the programs of its corpus and then random ones; another backend runs only the latter."""
    corpus = tmp_path / "corpus.jsonl"
    found_with(reading.NoneBecomesEmpty, corpus)
    kept = corpus.read_text()
    repaired = found_with(Mutant, corpus, programs=2)
    assert (repaired.failure, repaired.repeated, repaired.programs) == (None, 1, 2)
    with harness_for("memory") as harness:
        assert check_programs(harness, 60, 1, programs=2, patience=PATIENCE, corpus=corpus).repeated == 0
    assert corpus.read_text() == kept


def test_each_step_is_kept_as_it_is(tmp_path, monkeypatch):
    """All steps that are generated come back equal from a corpus, each program once."""
    ran, count = [], Findings.count
    monkeypatch.setattr(Findings, "count", lambda each, steps: (ran.append(tuple(steps)), count(each, steps)))
    with harness_for("memory") as harness:
        check_programs(harness, 60, 1, programs=40, patience=PATIENCE)
    corpus = Corpus(tmp_path / "corpus.jsonl")
    for steps in (*ran, ran[0]):
        corpus.add(Entry("memory", "id", "1/0", steps))
    assert [each.steps for each in corpus.of("memory")] == ran
    assert len({type(step) for steps in ran for step in steps}) > 30


def test_an_unreadable_corpus_is_named(tmp_path):
    """A line that is no program, or has an unknown step, is refused with the file and the line."""
    corpus = tmp_path / "corpus.jsonl"
    for line in ("no JSON", "{}", '{"backend": "mutant", "rule": "id", "seed": "1/0", "steps": [{"kind": "Fly"}]}'):
        corpus.write_text(f"{line}\n")
        with pytest.raises(UnreadableCorpus, match=r"corpus\.jsonl, line 1: no program of this version"):
            found_with(Mutant, corpus)
