package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/internal/durable"
	"github.com/gpuaas/gpuaas/protocol"
)

// Mounts are the mounts of an account with their access keys. The file is next to the node, which has no secret.
type Mounts struct {
	Storage protocol.Storage    `json:"storage"`
	Keys    []protocol.MountKey `json:"keys"`
}

// mountsFile returns the path of the file of an account.
func mountsFile(stateDir, account string) string {
	return filepath.Join(stateDir, "mounts-"+account+".json")
}

// ReadMounts returns the mounts of an account, if it has some.
func ReadMounts(stateDir, account string) (m Mounts, found bool, err error) {
	text, err := os.ReadFile(mountsFile(stateDir, account))
	if errors.Is(err, os.ErrNotExist) {
		return m, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, false, fmt.Errorf("reading mounts of a simulated node: %w", err)
	}
	return m, true, nil
}

// PutMounts implements step.Mounts. It waits for the access keys as a node does.
func (d *Driver) PutMounts(ctx context.Context, name string, uid int, l protocol.Limits, s protocol.Storage) error {
	if _, err := d.attempt(ctx, "mount"); err != nil {
		return err
	}
	if d.StorageKeys == nil {
		return errors.New("this node has no access keys for mounts")
	}
	g, err := d.StorageKeys.Await(ctx, uid, s)
	if err != nil {
		return err
	}
	text, err := json.Marshal(Mounts{Storage: s, Keys: g.Keys})
	if err != nil {
		return fmt.Errorf("encoding mounts: %w", err)
	}
	if err := durable.Write(mountsFile(filepath.Dir(d.path), name), text, 0o600); err != nil {
		return err
	}
	return d.act(ctx, "mount", func(h *Host) error {
		a := h.Accounts[name]
		if a == nil {
			return fmt.Errorf("no account %s", name)
		}
		a.Storage, a.MountsCPUWeight = &s, l.CPUWeight
		return nil
	})
}

// RemoveMounts implements step.Mounts.
func (d *Driver) RemoveMounts(ctx context.Context, name string, uid int) (notStored int, err error) {
	h, err := d.attempt(ctx, "unmount")
	if err != nil {
		return 0, err
	}
	if d.StorageKeys != nil {
		d.StorageKeys.Drop(uid)
	}
	a := h.Accounts[name]
	if a == nil || a.Storage == nil {
		return 0, nil
	}
	if err := os.Remove(mountsFile(filepath.Dir(d.path), name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("removing mounts: %w", err)
	}
	return a.NotStored, d.act(ctx, "unmount", func(h *Host) error {
		if a := h.Accounts[name]; a != nil {
			a.Storage, a.NotStored = nil, 0
		}
		return nil
	})
}

// PermitStorage implements step.Mounts. A simulated node has no packet rules.
func (d *Driver) PermitStorage(context.Context, int, []netip.AddrPort) error { return nil }

// mounted returns the mounts as a node reports them. An operation "mount" that fails leaves existing ones in place.
func (a *Account) mounted() (found []step.Mounted) {
	if a.Storage == nil {
		return nil
	}
	for _, m := range a.Storage.Mounts {
		found = append(found, step.Mounted{Mount: m, Endpoint: a.Storage.Endpoint, Bucket: a.Storage.Bucket, CPUWeight: a.MountsCPUWeight, Mounted: true})
	}
	return found
}
