"""The verbs of ``mqplug``: short ones by theme, long ones in a module each."""
