// Package explain turns the errors of the CUE evaluator into findings: one for each field, with the
// text of the schema, at the position in the author's file.
package explain
