/* The types that collect records before they are sent. */

#ifndef MQPLUG_COLLECTING_H
#define MQPLUG_COLLECTING_H

#include <Python.h>

extern PyType_Spec row_spec, rows_spec, collector_spec;

/* Prepare the types for the given module. -1: an exception is set. */
int prepare_collecting(PyTypeObject *rows);

#endif
