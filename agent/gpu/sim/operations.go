package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/protocol"
)

// PutSettings implements step.Settings.
func (d *Driver) PutSettings(ctx context.Context) error {
	return d.act(ctx, "settings", func(h *Host) error {
		h.Settings = nil
		return nil
	})
}

// PutAccount implements step.Accounts.
func (d *Driver) PutAccount(ctx context.Context, name string, uid int) error {
	return d.act(ctx, "account", func(h *Host) error {
		a := h.Accounts[name]
		if a == nil {
			a = &Account{}
			h.Accounts[name] = a
		}
		a.UID = uid
		return nil
	})
}

// RemoveAccount implements step.Accounts. Like userdel it fails while a process of the user is alive.
func (d *Driver) RemoveAccount(ctx context.Context, name string, uid int) error {
	return d.act(ctx, "remove", func(h *Host) error {
		for _, p := range h.Processes {
			if p.UID == uid {
				return fmt.Errorf("account %s is still in use by process %d", name, p.PID)
			}
		}
		maps.DeleteFunc(h.Accounts, func(n string, a *Account) bool { return n == name && a.UID == uid })
		return nil
	})
}

// fairHomeGiB is the size of a home if the task does not specify one.
const fairHomeGiB = 100

// PutHome implements step.Homes.
func (d *Driver) PutHome(ctx context.Context, name string, uid int, gib int64) error {
	return d.act(ctx, "home", func(h *Host) error {
		a := h.Accounts[name]
		if a == nil {
			return fmt.Errorf("no account %s", name)
		}
		if gib == 0 {
			gib = fairHomeGiB
		}
		a.HomeGiB, h.Files["/home/"+name] = gib, uid
		return nil
	})
}

// RemoveHome implements step.Homes.
func (d *Driver) RemoveHome(ctx context.Context, name string, _ int) error {
	return d.act(ctx, "remove_home", func(h *Host) error {
		if a := h.Accounts[name]; a != nil {
			a.HomeGiB = 0
		}
		delete(h.Files, "/home/"+name)
		return nil
	})
}

// PutLogin implements step.Logins.
func (d *Driver) PutLogin(ctx context.Context, l step.Login) error {
	return d.act(ctx, "keys", func(h *Host) error {
		a := h.Accounts[l.User]
		if a == nil {
			return fmt.Errorf("no account %s", l.User)
		}
		a.Keys, a.Principals, a.CAs, a.Revoked = slices.Clone(l.Keys), nil, slices.Clone(l.CAs), slices.Clone(l.Revoked)
		if l.Principal != "" {
			a.Principals = []string{l.Principal}
		}
		a.Access = l.Access
		return nil
	})
}

// BlockLogin implements step.Logins.
func (d *Driver) BlockLogin(ctx context.Context, name string, _ int) error {
	return d.act(ctx, "keys", func(h *Host) error {
		if a := h.Accounts[name]; a != nil {
			a.Keys, a.Principals, a.CAs = nil, nil, nil
		}
		return nil
	})
}

// RemoveLogin implements step.Logins.
func (d *Driver) RemoveLogin(ctx context.Context, name string, uid int) error {
	return d.BlockLogin(ctx, name, uid)
}

// PutSlice implements step.Slices. A device becomes dirty when a user can open it, whether the user does
// or not.
func (d *Driver) PutSlice(ctx context.Context, s step.Slice) error {
	return d.act(ctx, "grant", func(h *Host) error {
		for _, uuid := range s.GPUs {
			if _, err := h.gpu(uuid); err != nil {
				return err
			}
		}
		h.close(s.User, nil)
		for _, g := range h.GPUs {
			if slices.Contains(s.GPUs, g.UUID) {
				g.Users, g.Dirty = append(g.Users, s.User), true
			}
		}
		if a := h.Accounts[s.User]; a != nil {
			a.Limits = s.Limits
		}
		return nil
	})
}

// RemoveSlice implements step.Slices.
func (d *Driver) RemoveSlice(ctx context.Context, name string, _ int) error {
	return d.act(ctx, "grant", func(h *Host) error {
		h.close(name, nil)
		if a := h.Accounts[name]; a != nil {
			a.Limits = protocol.Limits{}
		}
		return nil
	})
}

// Shut implements step.Devices.
func (d *Driver) Shut(ctx context.Context, user string, gpus []string) error {
	return d.act(ctx, "grant", func(h *Host) error {
		h.close(user, gpus)
		return nil
	})
}

// close removes the access of the user to the GPUs; nil is all of them.
func (h *Host) close(user string, gpus []string) {
	for _, g := range h.GPUs {
		if gpus == nil || slices.Contains(gpus, g.UUID) {
			g.Users = slices.DeleteFunc(g.Users, func(u string) bool { return u == user })
		}
	}
}

// PutNet implements step.Nets.
func (d *Driver) PutNet(ctx context.Context, name string, _ int) error {
	return d.setNet(ctx, name, true)
}

// RemoveNet implements step.Nets.
func (d *Driver) RemoveNet(ctx context.Context, name string, _ int) error {
	return d.setNet(ctx, name, false)
}

func (d *Driver) setNet(ctx context.Context, name string, stands bool) error {
	return d.act(ctx, "net", func(h *Host) error {
		if a := h.Accounts[name]; a != nil {
			a.Net = stands
		}
		return nil
	})
}

// Baseline implements step.Devices.
func (d *Driver) Baseline(ctx context.Context, uuid string) error {
	return d.act(ctx, "baseline", func(h *Host) error {
		g, err := h.gpu(uuid)
		if err != nil {
			return err
		}
		g.Off = nil
		return nil
	})
}

// End implements step.Sessions.
func (d *Driver) End(ctx context.Context, _ string, uid int) error {
	return d.act(ctx, "end", func(h *Host) error {
		before := len(h.Processes)
		h.Processes = slices.DeleteFunc(h.Processes, func(p Process) bool { return p.UID == uid })
		h.Kills += before - len(h.Processes)
		return nil
	})
}

// Sweep implements step.Leftovers.
func (d *Driver) Sweep(ctx context.Context, name string, uid int) error {
	return d.act(ctx, "sweep", func(h *Host) error {
		maps.DeleteFunc(h.Files, func(path string, owner int) bool { return owner == uid && path != "/home/"+name })
		return nil
	})
}

// Scan implements step.Leftovers. It returns nothing, because hook.Remaining has already read the
// whole file of the simulated host OS.
func (d *Driver) Scan(ctx context.Context, _ string, _ int, _ []string) ([]string, error) {
	_, err := d.attempt(ctx, "scan")
	return nil, err
}

// ProbeInside implements step.Prober: what a login would find is in the file.
func (d *Driver) ProbeInside(ctx context.Context, o protocol.AllocationParams) (results []protocol.ProbeResult, err error) {
	h, err := d.attempt(ctx, "probe")
	if err != nil {
		return nil, err
	}
	for i, g := range h.GPUs {
		want, got := "EPERM", "EPERM"
		if slices.Contains(o.GPUs, g.UUID) {
			want = "open"
		}
		if slices.Contains(g.Users, o.User) {
			got = "open"
		}
		results = append(results, protocol.ProbeResult{Name: fmt.Sprintf("device /dev/nvidia%d", i), Expected: want, Got: got})
	}
	if o.Storage == nil {
		return results, nil
	}
	a := h.Accounts[o.User]
	for _, m := range o.Storage.Mounts {
		got := "ENOENT"
		if a != nil && a.Storage != nil && slices.Contains(a.Storage.Mounts, m) {
			got = "ok"
		}
		results = append(results, protocol.ProbeResult{Name: "mount:/home/" + o.User + "/" + m.At, Expected: "ok", Got: got})
	}
	return results, nil
}

// Kill implements step.Devices.
func (d *Driver) Kill(ctx context.Context, pid int) error {
	return d.act(ctx, "kill", func(h *Host) error {
		before := len(h.Processes)
		h.Processes = slices.DeleteFunc(h.Processes, func(p Process) bool { return p.PID == pid })
		h.Kills += before - len(h.Processes)
		return nil
	})
}

// Scrub implements step.Devices. It fails for a device that is in use or not on the bus, because neither
// could be overwritten.
func (d *Driver) Scrub(ctx context.Context, uuid string) error {
	return d.act(ctx, "scrub", func(h *Host) error {
		g, err := h.gpu(uuid)
		if err != nil {
			return err
		}
		for _, p := range h.Processes {
			if p.GPU == uuid {
				return fmt.Errorf("GPU %s is in use by process %d", uuid, p.PID)
			}
		}
		if g.lost() {
			return fmt.Errorf("GPU %s is lost", uuid)
		}
		g.Dirty = false
		h.Scrubs++
		return nil
	})
}
