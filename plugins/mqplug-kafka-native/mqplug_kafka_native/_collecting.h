/* The types that collect records before they are sent. */

#ifndef MQPLUG_COLLECTING_H
#define MQPLUG_COLLECTING_H

#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

extern PyType_Spec row_spec, rows_spec, collector_spec;

/* Prepare the types for the given module. -1: an exception is set. */
int prepare_collecting(PyTypeObject *row, PyTypeObject *rows);

/* A function of the module: the class of the ids, and the names of its slots for log, offset and detail. */
PyObject *use_ids(PyObject *module, PyObject *arguments);

/* Find the offset of a row in the offsets of a stored run. Return false if they are another object. */
bool find_sent_offset(PyObject *offsets, uint32_t row, int64_t *offset);

#endif
