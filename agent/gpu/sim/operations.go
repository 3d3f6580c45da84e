package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// PutAccount implements hook.Accounts.
func (d *Driver) PutAccount(ctx context.Context, name string, uid int) error {
	return d.act(ctx, "account", func(h *Host) error {
		a := h.Accounts[name]
		if a == nil {
			a = &Account{}
			h.Accounts[name] = a
		}
		a.UID = uid
		h.Files["/home/"+name] = uid
		return nil
	})
}

// SetKeys implements hook.Accounts.
func (d *Driver) SetKeys(ctx context.Context, name string, keys []string) error {
	return d.act(ctx, "keys", func(h *Host) error {
		a := h.Accounts[name]
		if a == nil {
			return fmt.Errorf("no account %s", name)
		}
		a.Keys = slices.Clone(keys)
		return nil
	})
}

// RemoveAccount implements hook.Accounts. Like userdel it refuses while a process
// of the user lives.
func (d *Driver) RemoveAccount(ctx context.Context, name string, uid int) error {
	return d.act(ctx, "remove", func(h *Host) error {
		for _, p := range h.Processes {
			if p.UID == uid {
				return fmt.Errorf("account %s is still in use by process %d", name, p.PID)
			}
		}
		maps.DeleteFunc(h.Accounts, func(n string, a *Account) bool { return n == name && a.UID == uid })
		maps.DeleteFunc(h.Files, func(_ string, owner int) bool { return owner == uid })
		return nil
	})
}

// Grant implements hook.Devices. A device that somebody could open is dirty from
// then on, used or not.
func (d *Driver) Grant(ctx context.Context, user string, gpus []string) error {
	return d.act(ctx, "grant", func(h *Host) error {
		for _, uuid := range gpus {
			if _, err := h.gpu(uuid); err != nil {
				return err
			}
		}
		for _, g := range h.GPUs {
			g.Users = slices.DeleteFunc(g.Users, func(u string) bool { return u == user })
			if slices.Contains(gpus, g.UUID) {
				g.Users = append(g.Users, user)
				g.Dirty = true
			}
		}
		return nil
	})
}

// Kill implements hook.Devices.
func (d *Driver) Kill(ctx context.Context, pid int) error {
	return d.act(ctx, "kill", func(h *Host) error {
		before := len(h.Processes)
		h.Processes = slices.DeleteFunc(h.Processes, func(p Process) bool { return p.PID == pid })
		h.Kills += before - len(h.Processes)
		return nil
	})
}

// Scrub implements hook.Devices. It refuses a device that is in use or off the
// bus: neither could be overwritten.
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
