package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/gpuaas/gpuaas/cli/local"
	"github.com/gpuaas/gpuaas/cli/output"
)

// Run runs the command line of the process and returns its exit code.
func Run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // main calls Run alone
	defer stop()
	defer local.Logged.Flush()
	// The second Ctrl-C kills: the first may be waiting for something that hangs.
	context.AfterFunc(ctx, stop)
	a := output.NewConsole()
	a.Execute = execute
	return execute(ctx, a, os.Args[1:])
}
