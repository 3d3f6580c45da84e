package linux

import (
	"context"
	"errors"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/linux/mount"
	"github.com/gpuaas/gpuaas/agent/linux/sweep"
	"github.com/gpuaas/gpuaas/protocol"
)

// PutMounts implements step.Mounts. It waits for the access keys before it locks anything.
func (h *Host) PutMounts(ctx context.Context, name string, uid int, l protocol.Limits, s protocol.Storage) error {
	if err := hostos.CheckTenant(name, uid); err != nil {
		return err
	}
	if h.StorageKeys == nil {
		return errors.New("this node has no access keys for mounts")
	}
	g, err := h.StorageKeys.Await(ctx, uid, s)
	if err != nil {
		return err
	}
	table, err := h.Mounts()
	if err != nil {
		return err
	}
	home, _ := h.homes().Inspect(name, table)
	return h.mounts().Put(ctx, name, uid, home.GiB, l.CPUWeight, s, g)
}

// RemoveMounts implements step.Mounts.
func (h *Host) RemoveMounts(ctx context.Context, name string, uid int) (notStored int, err error) {
	if err := hostos.CheckTenant(name, uid); err != nil {
		return 0, err
	}
	if h.StorageKeys != nil {
		h.StorageKeys.Drop(uid)
	}
	notStored, err = h.mounts().Remove(ctx, name, uid)
	if notStored > 0 && h.Log != nil {
		h.Log.WarnContext(ctx, "files of a tenant were not stored before their mounts ended", "uid", uid, "files", notStored)
	}
	return notStored, err
}

func (h *Host) mounts() *mount.Mounts {
	return &mount.Mounts{OS: &h.OS, Support: &h.support, Permit: h.PermitStorage, EndSlice: func(ctx context.Context, name string, uid int) {
		sweep.Tenant{Name: name, UID: uid}.EndSlice(ctx)
	}}
}
