"""How cases are selected and run, alone or as tests of pytest."""
