package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/gpuaas/gpuaas/agent/care"
	"github.com/gpuaas/gpuaas/agent/scrub"
)

// probe makes one look and prints it. The agent kills it when it hangs.
func probe(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 1 {
		return &usageError{errors.New("the name of a probe is needed")}
	}
	return care.Child(ctx, args[0], "", func(text []byte) error {
		_, err := out.Write(text)
		return err
	})
}

// scrubGPU overwrites the memory of one GPU and reads samples of it back.
func scrubGPU(args []string, out io.Writer) error {
	if len(args) != 1 {
		return &usageError{errors.New("the UUID of a GPU is needed")}
	}
	did, err := scrub.GPU(args[0])
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(did)
}
