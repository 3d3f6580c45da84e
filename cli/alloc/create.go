package alloc

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// creation contains the flags of alloc create.
type creation struct {
	sku, name, region, ttl string
	gpus                   int
	sshKeys                []string
	labels                 map[string]string
	mounts                 []string
	queue, wait, yes       bool
	dryRun                 bool
	timeout                time.Duration
}

func newAllocCreate(a *output.Console) *cobra.Command {
	f := creation{gpus: 1, timeout: 10 * time.Minute}
	cmd := &cobra.Command{
		Use: "create --sku NAME", Short: "Create an allocation", Args: cobra.NoArgs,
		Example: `  gpuaas alloc create --sku h100-sxm --gpus 2 --ttl 2h --wait
  gpuaas alloc create --sku h100-sxm --gpus 8 --queue
  gpuaas alloc create --sku h100-sxm --mount dataset:data:ro --mount runs:out
  gpuaas alloc create --sku t4 --dry-run`,
		RunE: func(cmd *cobra.Command, _ []string) error { return create(cmd.Context(), a, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.sku, "sku", "", "which GPU (gpuaas get skus)")
	flags.IntVar(&f.gpus, "gpus", f.gpus, "how many")
	flags.StringVar(&f.name, "name", "", "name, unique in the project (default: a generated name)")
	flags.StringVar(&f.region, "region", "", "only in this region")
	flags.StringArrayVar(&f.sshKeys, "ssh-key", nil, "name of an SSH key that gives access; may be repeated (default: all keys)")
	flags.StringToStringVar(&f.labels, "label", nil, "label as key=value; may be repeated")
	flags.StringArrayVar(&f.mounts, "mount", nil, "folder of stored objects in the home as PATH:AT or PATH:AT:ro, like dataset:data:ro; an empty PATH is all of the project; may be repeated")
	flags.StringVar(&f.ttl, "ttl", "", "release it by itself after this time, like 90m, 12h or 7d")
	flags.BoolVar(&f.queue, "queue", false, "wait for capacity instead of failing with sku_unavailable")
	flags.BoolVar(&f.wait, "wait", false, "wait until it is ready")
	flags.DurationVar(&f.timeout, "timeout", f.timeout, "how long to wait")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not prompt")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the cost and stop")
	return cmd
}

func create(ctx context.Context, a *output.Console, f creation) error {
	if f.sku == "" {
		u := output.UsageError("--sku is missing")
		u.Try = "gpuaas get skus"
		return u
	}
	if f.gpus < 1 {
		return output.UsageError("--gpus must be at least 1")
	}
	ttl, err := f.lease()
	if err != nil {
		return err
	}
	mounts, err := mountsOf(f.mounts)
	if err != nil {
		return err
	}
	if !f.dryRun {
		if err := a.RequireConfirmation(f.yes, "alloc create"); err != nil {
			return err
		}
	}
	c, err := client.Connect(a)
	if err != nil {
		return err
	}
	q, err := quote(ctx, c, f, ttl)
	if err != nil {
		return err
	}
	keys, err := keyIDs(ctx, c, f.sshKeys)
	if err != nil {
		return err
	}
	if f.dryRun {
		return showQuote(a, q)
	}
	text, err := q.Text()
	if err != nil {
		return err
	}
	_, _ = fmt.Fprint(a.Err, text)
	if !f.yes {
		if err := a.Confirm(ctx, "Create this allocation?", "nothing was created"); err != nil {
			return err
		}
	}
	return order(ctx, a, c, f, ttl, keys, mounts)
}

func (f creation) lease() (time.Duration, error) {
	if f.ttl == "" {
		return 0, nil
	}
	ttl, err := output.ParseSpan(f.ttl)
	switch {
	case err != nil:
		return 0, output.UsageError("--ttl: %v", err)
	case ttl < time.Minute:
		return 0, output.UsageError("--ttl must be at least a minute")
	}
	return ttl, nil
}

func quote(ctx context.Context, c *client.Client, f creation, ttl time.Duration) (Quote, error) {
	sku, err := client.Send[oapi.Sku](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetSku(ctx, f.sku) })
	if err != nil {
		if client.CodeOf(err) == errs.NotFound {
			return Quote{}, &output.CommandError{
				Message: fmt.Sprintf("SKU %q does not exist", f.sku), Code: string(errs.SKUUnknown), Try: "gpuaas get skus",
				Correlation: c.Correlation, Exit: output.ExitOf(errs.SKUUnknown),
			}
		}
		return Quote{}, err
	}
	balance, err := c.Balance(ctx)
	// A user who may request GPUs may lack the right to read the balance.
	if err != nil && !client.IsForbidden(err) {
		return Quote{}, err
	}
	return Quote{Sku: sku.Value, GPUs: f.gpus, Region: f.region, TTL: ttl, Balance: balance.Value}, nil
}

func showQuote(a *output.Console, q Quote) error {
	if !a.Data() {
		text, err := q.Text()
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(a.Out, text)
		a.Notify("Nothing was created: --dry-run.")
		return err
	}
	d, err := q.data()
	if err != nil {
		return err
	}
	document, err := output.Encode(d)
	if err != nil {
		return err
	}
	return a.Show(document, output.Table{})
}

func order(ctx context.Context, a *output.Console, c *client.Client, f creation, ttl time.Duration, keys []uuid.UUID, mounts []oapi.AllocationMount) error {
	body := oapi.AllocationRequest{Sku: f.sku, Gpus: &f.gpus, Name: output.PointerOrNil(f.name), Region: output.PointerOrNil(f.region), TtlSeconds: output.PointerOrNil(int64(ttl / time.Second)), Queue: output.PointerOrNil(f.queue)}
	if len(f.labels) > 0 {
		body.Labels = &f.labels
	}
	if len(keys) > 0 {
		body.SshKeyIds = &keys
	}
	if len(mounts) > 0 {
		body.Mounts = &mounts
	}
	once := client.IdempotencyKey()
	made, err := client.Send[oapi.Allocation](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.CreateAllocation(ctx, nil, body, c.InProject, once)
	})
	if err != nil {
		return f.orQueue(err)
	}
	if !f.wait && Queued(made.Value) {
		made = waitsAs(ctx, c, made)
		a.Notify("%s %s waits for capacity and stays queued: gpuaas alloc get %s", output.SymbolBusy, made.Value.Name, made.Value.Name)
		return showAllocation(a, made)
	}
	if !f.wait {
		a.Notify("%s %s is %s and continues: gpuaas alloc get %s", output.SymbolBusy, made.Value.Name, made.Value.Status, made.Value.Name)
		return showAllocation(a, made)
	}
	return await(ctx, a, c, made, f.timeout, untilReady)
}
