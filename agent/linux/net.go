package linux

import (
	"context"
	"net/netip"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
)

// PutNet implements step.Nets.
func (h *Host) PutNet(ctx context.Context, name string, uid int) error {
	if err := hostos.CheckTenant(name, uid); err != nil {
		return err
	}
	h.shared.Lock()
	defer h.shared.Unlock()
	return h.nets.Put(ctx, &h.OS, h.Rules, uid)
}

// RemoveNet implements step.Nets.
func (h *Host) RemoveNet(ctx context.Context, name string, uid int) error {
	if err := hostos.CheckTenant(name, uid); err != nil {
		return err
	}
	h.shared.Lock()
	defer h.shared.Unlock()
	return h.nets.Remove(ctx, &h.OS, h.Rules, uid)
}

// PermitStorage implements step.Mounts.
func (h *Host) PermitStorage(ctx context.Context, uid int, to []netip.AddrPort) error {
	h.shared.Lock()
	defer h.shared.Unlock()
	return h.nets.Permit(ctx, &h.OS, h.Rules, uid, to)
}
