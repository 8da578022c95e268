"""mqplug's drivers, carried out on a store of this process."""
