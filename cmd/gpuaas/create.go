package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// creation holds the flags of alloc create.
type creation struct {
	sku, name, region, ttl string
	gpus                   int
	sshKeys                []string
	labels                 map[string]string
	queue, wait, yes       bool
	dryRun                 bool
	timeout                time.Duration
}

func newAllocCreate(a *app) *cobra.Command {
	f := creation{gpus: 1, timeout: 10 * time.Minute}
	cmd := &cobra.Command{
		Use: "create --sku NAME", Short: "Ask for GPUs: shows price, balance and how long it lasts, then asks", Args: cobra.NoArgs,
		Example: `  gpuaas alloc create --sku h100-sxm --gpus 2 --ttl 2h --wait
  gpuaas alloc create --sku h100-sxm --gpus 8 --queue
  gpuaas alloc create --sku t4 --dry-run`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.create(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.sku, "sku", "", "which GPU (gpuaas get skus)")
	flags.IntVar(&f.gpus, "gpus", f.gpus, "how many")
	flags.StringVar(&f.name, "name", "", "name, unique in the project; one is made up when left out")
	flags.StringVar(&f.region, "region", "", "only in this region")
	flags.StringArrayVar(&f.sshKeys, "ssh-key", nil, "name of a key that may log in; all of yours when left out")
	flags.StringToStringVar(&f.labels, "label", nil, "your own words, as key=value")
	flags.StringVar(&f.ttl, "ttl", "", "release it by itself after this time, like 90m, 12h or 7d")
	flags.BoolVar(&f.queue, "queue", false, "where nothing is free, wait for capacity instead of being refused")
	flags.BoolVar(&f.wait, "wait", false, "wait until it is ready")
	flags.DurationVar(&f.timeout, "timeout", f.timeout, "how long to wait")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show what it would cost and stop")
	return cmd
}

func (a *app) create(ctx context.Context, f creation) error {
	if f.sku == "" {
		u := usage("--sku is missing")
		u.Try = "gpuaas get skus"
		return u
	}
	if f.gpus < 1 {
		return usage("--gpus must be at least 1")
	}
	ttl, err := f.lease()
	if err != nil {
		return err
	}
	if !f.dryRun {
		if err := a.mustAsk(f.yes, "alloc create"); err != nil {
			return err
		}
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	q, err := c.quote(ctx, f, ttl)
	if err != nil {
		return err
	}
	keys, err := c.keyIDs(ctx, f.sshKeys)
	if err != nil {
		return err
	}
	if f.dryRun {
		return a.showQuote(q)
	}
	text, err := q.text()
	if err != nil {
		return err
	}
	_, _ = fmt.Fprint(a.Err, text)
	if !f.yes {
		if err := a.confirm(ctx, "Create this allocation?", "nothing was created"); err != nil {
			return err
		}
	}
	return a.order(ctx, c, f, ttl, keys)
}

func (f creation) lease() (time.Duration, error) {
	if f.ttl == "" {
		return 0, nil
	}
	ttl, err := parseSpan(f.ttl)
	switch {
	case err != nil:
		return 0, usage("--ttl: %v", err)
	case ttl < time.Minute:
		return 0, usage("--ttl must be at least a minute")
	}
	return ttl, nil
}

func (c *client) quote(ctx context.Context, f creation, ttl time.Duration) (quote, error) {
	sku, err := ask[oapi.Sku](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetSku(ctx, f.sku) })
	if err != nil {
		if codeOf(err) == errs.NotFound {
			return quote{}, &failure{
				Message: fmt.Sprintf("there is no SKU %q", f.sku), Code: string(errs.SKUUnknown), Try: "gpuaas get skus",
				Correlation: c.correlation, Exit: exitOf(errs.SKUUnknown),
			}
		}
		return quote{}, err
	}
	balance, err := c.balance(ctx)
	// Who may ask for GPUs need not be who pays, nor see it.
	if err != nil && !forbidden(err) {
		return quote{}, err
	}
	return quote{Sku: sku.Value, GPUs: f.gpus, Region: f.region, TTL: ttl, Balance: balance.Value}, nil
}

func (a *app) showQuote(q quote) error {
	if !a.data() {
		text, err := q.text()
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(a.Out, text)
		a.say("Nothing was created: --dry-run.")
		return err
	}
	d, err := q.data()
	if err != nil {
		return err
	}
	document, err := encode(d)
	if err != nil {
		return err
	}
	return a.show(document, table{})
}

func (a *app) order(ctx context.Context, c *client, f creation, ttl time.Duration, keys []uuid.UUID) error {
	body := oapi.AllocationRequest{Sku: f.sku, Gpus: &f.gpus, Name: set(f.name), Region: set(f.region), TtlSeconds: set(int64(ttl / time.Second)), Queue: set(f.queue)}
	if len(f.labels) > 0 {
		body.Labels = &f.labels
	}
	if len(keys) > 0 {
		body.SshKeyIds = &keys
	}
	once := intent()
	made, err := ask[oapi.Allocation](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.CreateAllocation(ctx, nil, body, c.inProject, once)
	})
	if err != nil {
		return f.orQueue(err)
	}
	if !f.wait && queued(made.Value) {
		made = c.waitsAs(ctx, made)
		a.say("%s %s waits for capacity; it goes on: gpuaas alloc get %s", symbolBusy, made.Value.Name, made.Value.Name)
		return a.showAllocation(made)
	}
	if !f.wait {
		a.say("%s %s is %s; it goes on: gpuaas alloc get %s", symbolBusy, made.Value.Name, made.Value.Status, made.Value.Name)
		return a.showAllocation(made)
	}
	return a.await(ctx, c, made, f.timeout, untilReady)
}
