package agent

import (
	"context"
	"os"
	"path/filepath"
	"runtime"

	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/agent/update"
)

// defaultLib is the folder of the agent builds.
const defaultLib = "/usr/lib/gpuaas"

// updater returns the updater of the agent. It returns nil if the agent was not started from one of the
// two folders.
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
	return defaultLib
}

// replacing gives the helper what replaces the agent.
func (c Config) replacing(o *helper.Options, keys func() map[string][]byte) {
	u := c.updater(keys)
	if u == nil {
		return
	}
	o.Platform, o.Updater, o.Reported = u.Platform, u, u.HandleAck
}

// Guard restores the previous build unless the new one has proved itself. The previous build runs
// it in its own process.
func Guard(ctx context.Context, c Config) error {
	u := c.updater(nil)
	if u == nil {
		return nil // nothing was ever replaced here
	}
	_, err := u.Guard(ctx, update.Systemd{}.Why)
	return err
}
