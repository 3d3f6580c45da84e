package helper

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/agent/runner"
	"github.com/gpuaas/gpuaas/agent/storagekey"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// KeyWant is an allocation whose mounts need access keys.
type KeyWant struct {
	Allocation ids.Allocation `json:"allocation_id"`
	// Name of the endpoint, or the number of its address. The network process resolves a name: the helper has no network.
	Name string `json:"name"`
	// ExpiresAt is the end of the keys that the helper has. It is zero without keys.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// KeyGrant is the result of a request for access keys: keys, or a reason.
type KeyGrant struct {
	Allocation ids.Allocation      `json:"allocation_id"`
	Keys       *protocol.MountKeys `json:"keys,omitempty"`
	Addresses  []netip.Addr        `json:"addresses,omitempty"` // of the endpoint's name
	Failure    string              `json:"failure,omitempty"`
	// Rejected means that the control plane has no mounts for this allocation on this node.
	Rejected bool `json:"rejected,omitempty"`
}

// KeyWants lists the allocations that need access keys, now or when theirs expire.
func (l *Local) KeyWants(context.Context) (wants []KeyWant, err error) {
	if l.StorageKeys == nil {
		return nil, nil
	}
	for _, s := range l.runner.Storage() {
		host, _ := s.Address()
		// Also after a rejection: a server of the build before, which a rollback started, does not know the request.
		g, _, _ := l.StorageKeys.Get(s.UID)
		wants = append(wants, KeyWant{s.Allocation, host, g.ExpiresAt})
	}
	return wants, nil
}

// GrantKeys stores access keys. It rejects keys and addresses that do not fit the signed task.
func (l *Local) GrantKeys(ctx context.Context, g KeyGrant) error {
	all := l.runner.Storage()
	i := slices.IndexFunc(all, func(s runner.Storage) bool { return s.Allocation == g.Allocation })
	if i < 0 || l.StorageKeys == nil {
		return nil // released meanwhile
	}
	of := all[i]
	if g.Keys == nil {
		l.StorageKeys.Fail(of.UID, g.Failure, g.Rejected)
		return nil
	}
	grant := storagekey.Grant{MountKeys: *g.Keys, Addresses: g.Addresses}
	if err := grant.Check(of.Storage); err != nil {
		l.StorageKeys.Fail(of.UID, err.Error(), false)
		return err
	}
	before, had, _ := l.StorageKeys.Get(of.UID)
	l.StorageKeys.Put(of.UID, grant)
	if had && slices.Equal(before.Addresses, grant.Addresses) || l.Host == nil {
		return nil
	}
	// The name has other addresses now, or this process has started again.
	to, err := grant.Reach(of.Storage)
	if err != nil {
		return err
	}
	state, err := l.inspectHost(ctx)
	if err != nil {
		return err
	}
	for _, a := range state.Accounts {
		if a.UID == of.UID && len(a.Mounts) > 0 { // otherwise a step permits it
			return l.Host.PermitStorage(ctx, of.UID, to)
		}
	}
	return nil
}

// remountEvery is the period in which the helper mounts again what is not mounted. systemd tries each mount more often.
const remountEvery = time.Minute

// remount finds mounts that are missing. An outage of the control plane makes enforce do that.
func (l *Local) remount(ctx context.Context, now time.Time) {
	l.mu.Lock()
	due := !now.Before(l.remountAt) && now.Sub(l.heardAt) < aloneAfter
	if due {
		l.remountAt = now.Add(remountEvery)
	}
	l.mu.Unlock()
	if due {
		l.runner.Remount(ctx)
	}
}

// errNoGrant is the answer to a call without its parameter.
var errNoGrant = errors.New("no access keys")
