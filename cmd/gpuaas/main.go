// Command gpuaas is the whole product in one binary: the local installation (up), the server
// (server), and the command line.
//
// This package only wires. The command line knows only what the API returns, and prints the API's
// JSON unchanged.
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
