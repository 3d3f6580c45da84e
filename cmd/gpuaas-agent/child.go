package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/gpuaas/gpuaas/agent/gpuops"
	"github.com/gpuaas/gpuaas/agent/scrub"
)

// runProbe executes one health probe and prints the result. The agent kills the child if the probe hangs.
func runProbe(ctx context.Context, p process) error {
	if len(p.args) != 1 {
		return &usageError{errors.New("the name of a probe is needed")}
	}
	return gpuops.Child(ctx, p.args[0], "", func(text []byte) error {
		_, err := p.out.Write(text)
		return err
	})
}

// scrubGPU overwrites the memory of one GPU and reads samples of it back.
func scrubGPU(_ context.Context, p process) error {
	if len(p.args) != 1 {
		return &usageError{errors.New("the UUID of a GPU is needed")}
	}
	did, err := scrub.GPU(p.args[0])
	if err != nil {
		return err
	}
	return json.NewEncoder(p.out).Encode(did)
}
