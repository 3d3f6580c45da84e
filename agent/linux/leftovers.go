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
	return sweep.Tenant{Name: name, UID: uid, Skipped: h.skipped(ctx, uid)}.Sweep(ctx)
}

// skipped logs the tenants whose folders exceed the limits of the release of another one.
func (h *Host) skipped(ctx context.Context, releasing int) func(uid int) {
	return func(uid int) {
		if h.Log != nil {
			h.Log.WarnContext(ctx, "folders of a tenant exceed the limits of a release; they are skipped", "uid", uid, "releasing_uid", releasing)
		}
	}
}

// Scan implements step.Leftovers.
func (h *Host) Scan(ctx context.Context, name string, uid int, gpus []string) ([]string, error) {
	return scan.Leftovers(ctx, name, uid, gpus, scan.Sources{
		Hardware: h.SMI.Inventory,
		Rules: func(ctx context.Context) (string, error) {
			out, err := h.Command(ctx, hostos.Nft, "-s", "list", "ruleset")
			return string(out), err
		},
		Skipped: h.skipped(ctx, uid),
	})
}

// PutHome implements step.Homes.
func (h *Host) PutHome(ctx context.Context, name string, uid int, size int64) error {
	if err := hostos.CheckTenant(name, uid); err != nil {
		return err
	}
	h.shared.Lock()
	defer h.shared.Unlock()
	mounts, err := h.Mounts()
	if err != nil {
		return err
	}
	before, _ := h.homes().Inspect(name, mounts)
	err = h.homes().Ensure(ctx, name, uid, size, func(ctx context.Context) (int, error) {
		cards, err := h.cards(ctx)
		return len(cards), err
	})
	if err == nil && !before.Open && (before.GiB == 0 || before.Lost) {
		h.setNew(name, true)
	}
	return err
}

// RemoveHome implements step.Homes.
func (h *Host) RemoveHome(ctx context.Context, name string, uid int) error {
	if err := hostos.CheckTenant(name, uid); err != nil {
		return err
	}
	h.setNew(name, false)
	h.shared.Lock()
	defer h.shared.Unlock()
	return h.homes().Destroy(ctx, name)
}

func (h *Host) homes() *home.Homes { return &home.Homes{OS: &h.OS} }
