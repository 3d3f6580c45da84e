package linux

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/gpuaas/gpuaas/agent/linux/home"
	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/linux/scan"
	"github.com/gpuaas/gpuaas/agent/linux/sweep"
)

// End implements step.Sessions.
func (h *Host) End(ctx context.Context, name string, uid int) error {
	if err := hostos.CheckTenant(name, uid); err != nil {
		return err
	}
	terminate := func(ctx context.Context) error {
		_, err := h.Command(ctx, hostos.Loginctl, "terminate-user", strconv.Itoa(uid))
		return err
	}
	t := sweep.Tenant{Name: name, UID: uid}
	units := append(t.Units(), fmt.Sprintf("user@%d.service", uid), fmt.Sprintf("user-runtime-dir@%d.service", uid))
	stop := func(ctx context.Context) error {
		_, err := h.Command(ctx, hostos.Systemctl, "stop", "--", hostos.SliceOf(uid), fmt.Sprintf("user-runtime-dir@%d.service", uid))
		// systemd marks a unit that was killed as failed and stores it under the tenant's uid. A unit
		// that systemd has dropped already makes reset-failed fail, and that is not an error.
		for _, unit := range units {
			_, _ = h.Command(ctx, hostos.Systemctl, "reset-failed", "--", unit)
		}
		return err
	}
	return t.End(ctx, terminate, stop)
}

// Sweep implements step.Leftovers.
func (h *Host) Sweep(ctx context.Context, name string, uid int) error {
	if err := errors.Join(hostos.CheckTenant(name, uid), hostos.SameMounts()); err != nil {
		return err
	}
	return sweep.Tenant{Name: name, UID: uid}.Sweep(ctx)
}

// Scan implements step.Leftovers.
func (h *Host) Scan(ctx context.Context, name string, uid int, gpus []string) ([]string, error) {
	return scan.Leftovers(ctx, name, uid, gpus, scan.Sources{
		Hardware: h.SMI.Inventory,
		Rules: func(ctx context.Context) (string, error) {
			out, err := h.Command(ctx, hostos.Nft, "-s", "list", "ruleset")
			return string(out), err
		},
	})
}

// PutHome implements step.Homes.
func (h *Host) PutHome(ctx context.Context, name string, uid int, size int64) error {
	if err := hostos.CheckTenant(name, uid); err != nil {
		return err
	}
	h.shared.Lock()
	defer h.shared.Unlock()
	return h.homes().Ensure(ctx, name, uid, size, func(ctx context.Context) (int, error) {
		cards, err := h.cards(ctx)
		return len(cards), err
	})
}

// RemoveHome implements step.Homes.
func (h *Host) RemoveHome(ctx context.Context, name string, uid int) error {
	if err := hostos.CheckTenant(name, uid); err != nil {
		return err
	}
	h.shared.Lock()
	defer h.shared.Unlock()
	return h.homes().Destroy(ctx, name)
}

func (h *Host) homes() *home.Homes { return &home.Homes{OS: &h.OS} }
