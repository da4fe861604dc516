"""Random attacks on real runs, and what must hold whatever they do (docs/reliability.md).

scene.py       kedge in a folder of its own: commands that are started, and what they said
forked.py      commands that start at once, as e2e and zoo use them, too
parts.py       the processes of a scene, by what they are
work.py        random jobs
attacks/       what is done to them, one file a kind of harm; ATTACKS has them all
invariants.py  what must hold afterwards
rounds.py      one attack from its seed to its result
fuzz.py        the tests of tests/fuzz as rows of the same table
soak.py        many rounds, and the table: `make soak`
test_rounds.py some rounds with fixed seeds, for `make test`
"""
