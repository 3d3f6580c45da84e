package agent

import (
	"context"
	"os"
	"path/filepath"
	"runtime"

	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/agent/runner"
	"github.com/gpuaas/gpuaas/agent/update"
	"github.com/gpuaas/gpuaas/protocol"
)

// DefaultLib is where builds of the agent lie on a host.
const DefaultLib = "/usr/lib/gpuaas"

// updater is how the half that acts replaces the agent, or nil where it was not
// started from one of the folders that take turns.
func (c Config) updater(keys func() map[string][]byte) *update.Updater {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return nil
	}
	slot, lib := filepath.Base(filepath.Dir(self)), filepath.Dir(filepath.Dir(self))
	if slot != "a" && slot != "b" || lib != c.lib() {
		return nil
	}
	return &update.Updater{
		Lib: lib, State: filepath.Join(c.StateDir, "update"), Staging: c.buildsIn(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Version: c.Version, Slot: slot, Services: update.Systemd{}, Keys: keys, Clock: c.Clock, Log: c.Log,
	}
}

func (c Config) lib() string {
	if c.Lib != "" {
		return c.Lib
	}
	return DefaultLib
}

// replacing adds what replaces the agent to the half that acts.
func (c Config) replacing(o *helper.Options, keys func() map[string][]byte) {
	u := c.updater(keys)
	if u == nil {
		return
	}
	o.Platform = u.Platform
	o.Handlers = handlers(o.Handlers, protocol.AgentUpdate, func(ctx context.Context, j runner.Job) (any, error) {
		p, err := j.Envelope.AgentUpdate()
		if err != nil {
			return nil, err
		}
		if err := j.Begin("replace"); err != nil {
			return nil, err
		}
		return map[string]string{"version": p.Version}, u.Become(ctx, update.Order{Task: j.Envelope.Task, Fence: j.Envelope.Fence, Params: p})
	})
	o.Reported = u.Heard
}

func handlers(all map[protocol.Type]runner.Handler, t protocol.Type, h runner.Handler) map[protocol.Type]runner.Handler {
	if all == nil {
		all = map[protocol.Type]runner.Handler{}
	}
	all[t] = h
	return all
}

// Guard goes back to the build before unless the new one has proved itself. It is
// run by that build, in a process of its own.
func Guard(ctx context.Context, c Config) error {
	u := c.updater(nil)
	if u == nil {
		return nil // nothing was ever replaced here
	}
	_, err := u.Guard(ctx, update.Systemd{}.Why)
	return err
}
