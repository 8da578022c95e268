"""Random programs over the public face, each call of which is judged by the model of the rules.

``check_programs`` runs them over a backend. A program that breaks a rule is shrunk and printed as Python.
"""

from __future__ import annotations

from mqplug_testing.programs.report import Failure, Findings
from mqplug_testing.programs.run import check_programs, replay

__all__ = ["Failure", "Findings", "check_programs", "replay"]
