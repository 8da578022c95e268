"""From a mapping into a settings class: strict reading, all complaints at once, secrets hidden."""
