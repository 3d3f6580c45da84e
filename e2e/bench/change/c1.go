// Package change measures the validation of desired state and its Git sources.
package change

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/desired/validate/bare"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// offer returns an object with some fifteen fields and its metadata.
func offer() (desired.Object, []byte, error) {
	spec, err := json.Marshal(desired.SKU{
		DisplayName: "NVIDIA H100 SXM 80 GB", GPUModel: "NVIDIA H100 80GB HBM3", MemoryGiB: 80, Isolation: "host_user", MaxGPUs: 8, Active: true,
		Price: desired.Price{Currency: "EUR", AmountMinor: 249},
	})
	if err != nil {
		return desired.Object{}, nil, fmt.Errorf("encoding a spec: %w", err)
	}
	o := desired.Object{Kind: desired.KindSKU, Name: "h100-sxm", Labels: map[string]string{"tier": "premium", "zone": "a"}, Spec: spec}
	document, err := json.Marshal(map[string]any{
		"apiVersion": "gpuaas/v1alpha1", "kind": o.Kind, "metadata": map[string]any{"name": o.Name, "labels": o.Labels}, "spec": o.Spec,
	})
	if err != nil {
		return desired.Object{}, nil, fmt.Errorf("encoding a document: %w", err)
	}
	return o, document, nil
}

func repeat(n int, do func() error) lab.Side {
	return func(ctx context.Context) (time.Duration, error) {
		for range n {
			if err := do(); err != nil {
				return 0, err
			}
		}
		return 0, ctx.Err()
	}
}

func nothing(context.Context) error { return nil }

const (
	validations = 5000
	// growing is the number of objects for which the growth is stated. One object in refusedEach is
	// invalid and is validated by CUE.
	growing      = 1_000_000
	rejectedEach = 200
)

// Validation compares the validation in the API with CUE alone on one object, and measures the
// memory that a million validations leave.
func Validation(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	o, document, err := offer()
	if err != nil {
		return nil, err
	}
	c, err := validate.New()
	if err != nil {
		return nil, err
	}
	n := l.Scaled(validations, 50)
	var cue bare.CUE
	p, err := l.Alternate(ctx, lab.LeastPairs, nothing,
		repeat(n, func() error { return c.Check(o) }), repeat(n, func() error { return cue.Check(o.Kind, document) }))
	if err != nil {
		return nil, err
	}
	r := p.Row("C1", "validate an object / bare CUE", n).AtMost(1.1)
	r.Note = fmt.Sprintf("%d objects a run, normalised and hashed on our side", n)

	wrong := o
	wrong.Spec = json.RawMessage(`{"gpuModel": "T4", "memoryGiB": 0, "price": {"currency": "EUR", "amountMinor": 1}}`)
	n = l.Scaled(growing, 1000)
	i := 0
	each := func() error {
		if i++; i%rejectedEach != 0 {
			return c.Check(o)
		}
		if c.Check(wrong) == nil {
			return errors.New("a wrong object was accepted")
		}
		return nil
	}
	// The first part fills the caches and the CUE context that all later parts share.
	if _, err := repeat(n/10, each)(ctx); err != nil {
		return nil, err
	}
	debug.FreeOSMemory()
	before := lab.Resident(os.Getpid())
	if _, err := repeat(n, each)(ctx); err != nil {
		return nil, err
	}
	debug.FreeOSMemory()
	after := lab.Resident(os.Getpid())
	growth := lab.Row{ID: "C1-rss", Path: "memory after many validations / before, growth in MiB", Unit: " MiB", Ours: after, Peer: before, Ratio: after - before, Min: after - before, Max: after - before}
	growth = growth.AtMost(5)
	growth.Note = fmt.Sprintf("%d validations, one in %d rejected", n, rejectedEach)
	return []lab.Row{r, growth}, nil
}
