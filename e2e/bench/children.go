package main

import (
	"context"
	"fmt"

	"github.com/gpuaas/gpuaas/e2e/bench/access"
	"github.com/gpuaas/gpuaas/e2e/bench/api"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/e2e/bench/loop"
	"github.com/gpuaas/gpuaas/e2e/bench/node"
)

func child(ctx context.Context, name string) error {
	switch name {
	case "loop":
		return loop.LoopProcess(ctx)
	case "load":
		return lab.LoadProcess(ctx)
	case "crowd":
		return node.CrowdProcess(ctx)
	case "tenant":
		return node.TenantProcess(ctx)
	case "listener":
		return node.ListenerProcess(ctx)
	case "nodes":
		return access.NodesProcess(ctx)
	case "terminals":
		return access.TerminalsProcess(ctx)
	case "clients":
		return access.ClientsProcess(ctx)
	case "api":
		return api.APIProcess(ctx)
	}
	return fmt.Errorf("no part of the bench is named %q", name)
}
