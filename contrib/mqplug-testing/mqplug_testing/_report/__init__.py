"""The results of the cases: collected, shown in the terminal, and written as JSON or as a Markdown table."""

from __future__ import annotations

from mqplug_testing._report.case_lines import CaseLines
from mqplug_testing._report.collecting import ContractReport

__all__ = ["CaseLines", "ContractReport"]
