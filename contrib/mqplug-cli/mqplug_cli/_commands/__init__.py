"""The commands of ``mqplug``, one module each."""
