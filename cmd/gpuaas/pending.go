package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// pendingSections say why a request waits, and what would let it through: nothing
// for one that does not wait.
func pendingSections(p *oapi.Pending) []section {
	if p == nil {
		return nil
	}
	position := ""
	if p.Position != nil {
		position = strconv.Itoa(*p.Position) + " in the queue for this SKU"
	}
	filters := table{head: []string{"FILTER", "NODES"}}
	for _, f := range p.Filters {
		filters.add("", f.Filter, strconv.Itoa(f.Nodes))
	}
	fits := table{head: []string{"WHAT", "BY ITSELF AT"}}
	for _, f := range p.Fits {
		fits.add("", f.Text, stamp(deref(f.At)))
	}
	return []section{
		{title: "Waits for capacity:", facts: [][2]string{
			{"  Position", position}, {"  Since", stamp(p.Since)}, {"  Given up", stamp(deref(p.DeadlineAt))}, {"  Why", p.Message},
		}},
		{title: "Nodes left out:", table: filters},
		{title: "What would let it through:", table: fits},
	}
}

// waitsAs reads a request that was just put in the queue again: only a look says
// why it waits. The request stands whether or not the look succeeds.
func (c *client) waitsAs(ctx context.Context, made answer[oapi.Allocation]) answer[oapi.Allocation] {
	if seen, err := c.allocation(ctx, made.Value.Id); err == nil {
		return seen
	}
	return made
}

// queued says that a request waits for capacity.
func queued(one oapi.Allocation) bool {
	ready, _ := condition(one.Conditions, "Ready")
	return ready.Reason == "Queued"
}

// orQueue names the way out that only whoever asked without it has.
func (f creation) orQueue(err error) error {
	refused, ok := errors.AsType[*failure](err)
	if !ok || f.queue || codeOf(err) != errs.SKUUnavailable {
		return err
	}
	advised := *refused
	advised.Try = "the same command with --queue, which waits for capacity; gpuaas get skus shows what is free"
	return &advised
}
