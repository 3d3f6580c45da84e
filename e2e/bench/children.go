package main

import (
	"context"
	"fmt"

	"github.com/gpuaas/gpuaas/e2e/bench/access"
	"github.com/gpuaas/gpuaas/e2e/bench/api"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/e2e/bench/loop"
	"github.com/gpuaas/gpuaas/e2e/bench/node"
	"github.com/gpuaas/gpuaas/e2e/bench/storage"
)

// processes are the parts of the bench that run in processes of their own.
var processes = map[string]func(context.Context) error{
	"loop": loop.LoopProcess, "load": lab.LoadProcess, "crowd": node.CrowdProcess, "tenant": node.TenantProcess, "listener": node.ListenerProcess,
	"nodes": access.NodesProcess, "terminals": access.TerminalsProcess, "clients": access.ClientsProcess, "api": api.APIProcess, "files": storage.PeerProcess,
}

func child(ctx context.Context, name string) error {
	run, known := processes[name]
	if !known {
		return fmt.Errorf("no part of the bench is named %q", name)
	}
	return run(ctx)
}
