// Command gpuaas is the whole product in one binary: the installation on one
// machine (up), the server (server), and the command line that talks to either.
//
// This package wires; it owns no rule of the product. What the command line
// knows it knows from the API, and what it prints as JSON is what the API said.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/gpuaas/gpuaas/desired/validate"
)

func main() {
	validate.Child() // does not return in the child that evaluates files
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer logged.Flush()
	// The second Ctrl-C kills: the first may be waiting for something that hangs.
	context.AfterFunc(ctx, stop)
	return newApp().execute(ctx, os.Args[1:])
}
