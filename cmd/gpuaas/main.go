// Command gpuaas is the whole product in one binary: the installation on one
// machine (up), the server (server), and the command line that talks to either.
//
// This package wires; it owns no rule of the product. What the command line
// knows it knows from the API, and what it prints as JSON is what the API said.
package main

import (
	"os"

	"github.com/gpuaas/gpuaas/cli"
	"github.com/gpuaas/gpuaas/desired/validate"
)

func main() {
	validate.Child() // does not return in the child that evaluates files
	os.Exit(cli.Run())
}
