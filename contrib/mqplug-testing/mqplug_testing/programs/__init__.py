"""Random programs over the public face, each call of which is judged by the model of the rules.

``check_programs`` runs them over a backend. A program that breaks a rule is shrunk and printed as Python. A
corpus keeps it for the next run.
"""

from __future__ import annotations

from mqplug_testing.programs.corpus import UnreadableCorpus
from mqplug_testing.programs.report import Failure, Findings
from mqplug_testing.programs.run import check_programs, replay

__all__ = ["Failure", "Findings", "UnreadableCorpus", "check_programs", "replay"]
