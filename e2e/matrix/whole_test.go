//go:build e2e

package matrix_test

const (
	// whole sends every cell of the matrix: minutes, where a sample takes seconds.
	whole = true
	// perOperation counts the requests of the fuzzer for each operation.
	perOperation = 200
)
