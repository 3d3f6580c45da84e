package rest_test

import (
	"os"
	"testing"

	"github.com/gpuaas/gpuaas/desired/validate"
)

func TestMain(m *testing.M) {
	validate.Child() // does not return in the child that evaluates files
	dir, err := os.MkdirTemp("", "gpuaas-rest-test-")
	if err != nil {
		panic(err)
	}
	keysDir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
