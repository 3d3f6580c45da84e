package change

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// validationSizes are the sizes of a source that have a goal.
var validationSizes = []struct {
	id      string
	objects int
	most    time.Duration
}{
	{"C3", 1000, time.Second},
	{"C3-10k", 10_000, 10 * time.Second},
}

// WholeSource measures the validation of all objects of a source. It runs in a child process with
// the limits of a sync.
func WholeSource(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	var rows []lab.Row
	for _, size := range validationSizes {
		n := l.Scaled(size.objects, 20)
		files := fleetFiles(n)
		var took []float64
		for range lab.LeastPairs {
			began := time.Now()
			result, err := validate.Run(ctx, files)
			if err != nil {
				return nil, err
			}
			if len(result.Objects) != n+1 {
				return nil, errors.New("a node was rejected")
			}
			took = append(took, time.Since(began).Seconds())
		}
		r := lab.Row{
			ID: size.id, Path: fmt.Sprintf("validate %d objects of a source", n), Unit: " s", Ours: lab.Median(took), Peer: size.most.Seconds(),
			Goal: fmt.Sprintf("≤ %g s", size.most.Seconds()), Note: fmt.Sprintf("the child's limit is %d MiB", validate.DefaultLimits().MemoryBytes>>20),
		}
		r.Ratio = r.Ours / r.Peer
		r.Min, r.Max, r.Met = r.Ratio, r.Ratio, new(r.Ours <= r.Peer)
		rows = append(rows, r)
	}
	ratio, err := decodeRatio(ctx, l)
	return append(rows, ratio), err
}

// fleetFiles are nodes in YAML files of as many objects as C2 has in each, and the SKU that they name.
func fleetFiles(n int) map[string][]byte {
	files := map[string][]byte{"skus.yaml": []byte("apiVersion: gpuaas/v1alpha1\nkind: SKU\nmetadata: {name: h100}\nspec: {gpuModel: H100, memoryGiB: 80, price: {currency: EUR, amountMinor: 249}}\n")}
	for i := 0; i < n; {
		var text strings.Builder
		for begin := i; i < n && i < begin+checkedEach; i++ {
			text.WriteString(nodeText(i))
		}
		files[fmt.Sprintf("nodes-%d.yaml", i)] = []byte(text.String())
	}
	return files
}

// decodeRatio compares the validation of one object with decoding alone. The row has no goal.
func decodeRatio(ctx context.Context, l *lab.Lab) (lab.Row, error) {
	o, document, err := offer()
	if err != nil {
		return lab.Row{}, err
	}
	c, err := validate.New()
	if err != nil {
		return lab.Row{}, err
	}
	n := l.Scaled(4*validations, 500)
	decode := func() error {
		var v any
		return json.Unmarshal(document, &v)
	}
	p, err := l.Alternate(ctx, lab.LeastPairs, nothing, repeat(n, func() error { return c.Check(o) }), repeat(n, decode))
	if err != nil {
		return lab.Row{}, err
	}
	r := p.Row("C3-ratio", "validate an object / JSON decode of the same document", n)
	r.Goal = "reported"
	return r, nil
}
