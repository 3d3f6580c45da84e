package alloc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// verdict is the result of one poll of an allocation.
type verdict int

const (
	notYet verdict = iota
	reached
	stalled // it needs a user's action
)

func untilReady(one oapi.Allocation) verdict {
	switch one.Status {
	case oapi.AllocationStatusActive:
		if output.IsTrue(one.Conditions, "Ready") {
			return reached
		}
	case oapi.AllocationStatusFailed, oapi.AllocationStatusReleaseFailed, oapi.AllocationStatusReleasing, oapi.AllocationStatusReleased:
		return stalled // released by another user, or at its TTL
	case oapi.AllocationStatusRequested, oapi.AllocationStatusProvisioning:
	}
	if output.IsTrue(one.Conditions, "Stalled") {
		return stalled
	}
	return notYet
}

func untilReleased(one oapi.Allocation) verdict {
	switch {
	case one.Status == oapi.AllocationStatusReleased:
		return reached
	case one.Status == oapi.AllocationStatusReleaseFailed, one.Status != oapi.AllocationStatusReleasing && output.IsTrue(one.Conditions, "Stalled"):
		return stalled
	}
	return notYet
}

// await polls an allocation until done returns a result, and prints its last state. It only
// reads: the end of the command does not affect the allocation.
func await(ctx context.Context, a *output.Console, c *client.Client, from client.Response[oapi.Allocation], timeout time.Duration, judge func(oapi.Allocation) verdict) error {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	w := Watch{App: a, Began: a.Clock.Now(), now: from}
	err := w.poll(within, c, judge)
	name := from.Value.Name
	switch {
	case err == nil:
		return showAllocation(a, w.now)
	case ctx.Err() != nil:
		return &output.CommandError{
			Message: name + " continues; only the waiting was stopped", Code: output.CodeInterrupted,
			Try: "gpuaas alloc get " + name, Correlation: c.Correlation, Exit: output.ExitInterrupted,
		}
	case within.Err() != nil:
		err = &output.CommandError{
			Message: fmt.Sprintf("%s is still %s after %s; it continues", name, w.now.Value.Status, timeout), Code: output.CodeTimeout,
			Try: "gpuaas describe alloc " + name, Correlation: c.Correlation, Exit: output.ExitTimeout,
		}
	}
	return errors.Join(showAllocation(a, w.now), err)
}

// Watch is one wait: the last state of the allocation and what was printed of it.
type Watch struct {
	App     *output.Console
	Began   time.Time
	now     client.Response[oapi.Allocation]
	Printed map[string]string
}

func (w *Watch) poll(ctx context.Context, c *client.Client, judge func(oapi.Allocation) verdict) error {
	wake := make(chan struct{}, 1)
	listening, cancel := context.WithCancel(ctx)
	defer cancel()
	go c.WakeUp(listening, wake)
	tick := time.NewTicker(client.PollEvery)
	defer tick.Stop()

	for {
		w.print()
		switch judge(w.now.Value) {
		case reached:
			one := w.now.Value
			w.line(output.SymbolGood+" "+string(one.Status), fmt.Sprintf("cost so far %s", output.Amount(one.Cost)))
			return nil
		case stalled:
			return w.stall(c)
		case notYet:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		case <-tick.C:
		}
		next, err := c.Allocation(ctx, w.now.Value.Id)
		switch {
		case err == nil:
			w.now = next
		case ctx.Err() != nil:
			return ctx.Err()
		case client.CodeOf(err) != errs.Unavailable:
			return err
		default: // the server restarts, perhaps; the deadline bounds the hope
			w.line(output.SymbolWarn+" unavailable", "the server is not reachable; the command tries again")
		}
	}
}

func (w *Watch) stall(c *client.Client) error {
	one := w.now.Value
	why, _ := output.Condition(one.Conditions, "Stalled")
	if why.Message == "" {
		why, _ = output.Condition(one.Conditions, "Ready")
	}
	text := cmp.Or(output.ValueOrZero(one.Message), why.Message, "no reason was given")
	return &output.CommandError{
		Message: fmt.Sprintf("%s is %s: %s", one.Name, one.Status, text), Code: cmp.Or(output.ValueOrZero(one.Reason), string(why.Reason), output.CodeStalled),
		Try: "gpuaas describe alloc " + one.Name, Correlation: c.Correlation, Exit: output.ExitFailure,
	}
}

// print writes the state and the conditions that have changed since last time.
func (w *Watch) print() {
	if w.Printed == nil {
		w.Printed = map[string]string{}
	}
	one := w.now.Value
	if w.Printed["status"] != string(one.Status) {
		w.Printed["status"] = string(one.Status)
		w.line(output.SymbolBusy+" "+string(one.Status), fmt.Sprintf("%s, %s", one.Name, WhatOf(one)))
	}
	w.Conditions(one.Conditions)
}

// Conditions writes those that have changed.
func (w *Watch) Conditions(all []oapi.Condition) {
	for _, c := range all {
		name, text := string(c.Type), fmt.Sprintf("%s %s", c.Reason, c.Message)
		if w.Printed[name] != string(c.Status)+text {
			w.Printed[name] = string(c.Status) + text
			w.line("  "+name, output.ConditionSymbol(c.Status)+"   "+text)
		}
	}
}

func (w *Watch) line(what, text string) {
	at := w.App.Clock.Now().Sub(w.Began)
	w.App.Notify("%s", strings.TrimRight(fmt.Sprintf("%7.1fs  %-18s %s", at.Seconds(), what, text), " "))
}
