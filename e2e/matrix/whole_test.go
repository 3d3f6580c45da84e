//go:build e2e

package matrix_test

const (
	// whole asks every cell of the matrix: minutes, where a sample takes seconds.
	whole = true
	// perOperation is how many requests of each operation the fuzzer draws.
	perOperation = 200
)
