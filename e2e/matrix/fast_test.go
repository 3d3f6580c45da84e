//go:build !e2e

package matrix_test

const (
	whole        = false
	perOperation = 20
)
