package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// verdict is what a look at an allocation says to whoever waits for it.
type verdict int

const (
	notYet verdict = iota
	reached
	stalled // it will not come about without somebody's doing
)

func untilReady(one oapi.Allocation) verdict {
	switch one.Status {
	case oapi.AllocationStatusActive:
		if holds(one.Conditions, "Ready") {
			return reached
		}
	case oapi.AllocationStatusFailed, oapi.AllocationStatusReleaseFailed, oapi.AllocationStatusReleasing, oapi.AllocationStatusReleased:
		return stalled // released by somebody else, or by its lease
	case oapi.AllocationStatusRequested, oapi.AllocationStatusProvisioning:
	}
	if holds(one.Conditions, "Stalled") {
		return stalled
	}
	return notYet
}

func untilReleased(one oapi.Allocation) verdict {
	switch {
	case one.Status == oapi.AllocationStatusReleased:
		return reached
	case one.Status == oapi.AllocationStatusReleaseFailed, one.Status != oapi.AllocationStatusReleasing && holds(one.Conditions, "Stalled"):
		return stalled
	}
	return notYet
}

// Events wake the wait; the look behind them is what counts. Without events the
// wait is slower by this much and no different.
const lookEvery = time.Second

// await follows an allocation until judge has a verdict, and prints it as it was
// last seen. It only watches: whatever ends it, the allocation goes on.
func (a *app) await(ctx context.Context, c *client, from answer[oapi.Allocation], timeout time.Duration, judge func(oapi.Allocation) verdict) error {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	w := watch{app: a, began: a.Clock.Now(), now: from}
	err := w.follow(within, c, judge)
	name := from.Value.Name
	switch {
	case err == nil:
		return a.showAllocation(w.now)
	case ctx.Err() != nil:
		return &failure{
			Message: name + " goes on; only the waiting was stopped", Code: codeInterrupted,
			Try: "gpuaas alloc get " + name, Correlation: c.correlation, Exit: exitInterrupted,
		}
	case within.Err() != nil:
		err = &failure{
			Message: fmt.Sprintf("%s is still %s after %s; it goes on", name, w.now.Value.Status, timeout), Code: codeTimeout,
			Try: "gpuaas describe alloc " + name, Correlation: c.correlation, Exit: exitTimeout,
		}
	}
	return errors.Join(a.showAllocation(w.now), err)
}

// watch is one wait: the allocation as last seen, and what was printed of it.
type watch struct {
	app     *app
	began   time.Time
	now     answer[oapi.Allocation]
	printed map[string]string
}

func (w *watch) follow(ctx context.Context, c *client, judge func(oapi.Allocation) verdict) error {
	wake := make(chan struct{}, 1)
	listening, cancel := context.WithCancel(ctx)
	defer cancel()
	go c.wakeUp(listening, wake)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()

	for {
		w.print()
		switch judge(w.now.Value) {
		case reached:
			one := w.now.Value
			w.line(symbolGood+" "+string(one.Status), fmt.Sprintf("cost so far %s", amount(one.Cost)))
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
		next, err := c.allocation(ctx, w.now.Value.Id)
		switch {
		case err == nil:
			w.now = next
		case ctx.Err() != nil:
			return ctx.Err()
		case codeOf(err) != errs.Unavailable:
			return err
		default: // the server restarts, perhaps; the deadline bounds the hope
			w.line(symbolWarn+" unavailable", "the server does not answer; still trying")
		}
	}
}

func (w *watch) stall(c *client) error {
	one := w.now.Value
	why, _ := condition(one.Conditions, "Stalled")
	if why.Message == "" {
		why, _ = condition(one.Conditions, "Ready")
	}
	text := cmp.Or(deref(one.Message), why.Message, "no reason was given")
	return &failure{
		Message: fmt.Sprintf("%s is %s: %s", one.Name, one.Status, text), Code: cmp.Or(deref(one.Reason), why.Reason, codeStalled),
		Try: "gpuaas describe alloc " + one.Name, Correlation: c.correlation, Exit: exitFailure,
	}
}

// print writes the state and the conditions that have changed since last time.
func (w *watch) print() {
	if w.printed == nil {
		w.printed = map[string]string{}
	}
	one := w.now.Value
	if w.printed["status"] != string(one.Status) {
		w.printed["status"] = string(one.Status)
		w.line(symbolBusy+" "+string(one.Status), fmt.Sprintf("%s, %s", one.Name, whatOf(one)))
	}
	w.conditions(one.Conditions)
}

// conditions writes those that have changed.
func (w *watch) conditions(all []oapi.Condition) {
	for _, c := range all {
		text := fmt.Sprintf("%s %s", c.Reason, c.Message)
		if w.printed[c.Type] != string(c.Status)+text {
			w.printed[c.Type] = string(c.Status) + text
			w.line("  "+c.Type, truth(c.Status)+"   "+text)
		}
	}
}

func (w *watch) line(what, text string) {
	at := w.app.Clock.Now().Sub(w.began)
	w.app.say("%s", strings.TrimRight(fmt.Sprintf("%7.1fs  %-18s %s", at.Seconds(), what, text), " "))
}
