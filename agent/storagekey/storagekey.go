// Package storagekey stores the access keys of mounts in the memory of the helper, from the network process that requests
// them to the step that mounts. It writes no file: an agent that starts again requests the same keys again.
package storagekey

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/agent/linux/netrules"
	"github.com/gpuaas/gpuaas/protocol"
)

// Grant contains the access keys of an allocation, and the addresses of the endpoint. An endpoint with a literal address
// has no others.
type Grant struct {
	protocol.MountKeys

	Addresses []netip.Addr
}

// keyText matches an access key. An access key is written into a configuration without quotes.
var keyText = regexp.MustCompile(`^[A-Za-z0-9+/=_.-]{1,256}$`)

// maxAddresses limits the addresses of one name.
const maxAddresses = 32

// Check rejects a grant that does not fit the mounts of a task. The network process passes it on, so it could name
// any address: a tenant must not reach the services of its node by that.
func (g Grant) Check(s protocol.Storage) error {
	if len(g.Keys) != len(s.Mounts) {
		return fmt.Errorf("%d access keys for %d mounts", len(g.Keys), len(s.Mounts))
	}
	for _, m := range s.Mounts {
		k, found := g.Of(m.At)
		if !found || !keyText.MatchString(k.AccessKeyID) || !keyText.MatchString(k.Secret) {
			return fmt.Errorf("no valid access key for the mount %s", m.At)
		}
	}
	_, err := g.Reach(s)
	return err
}

// Of returns the key of one mount.
func (g Grant) Of(at string) (protocol.MountKey, bool) {
	i := slices.IndexFunc(g.Keys, func(k protocol.MountKey) bool { return k.At == at })
	if i < 0 {
		return protocol.MountKey{}, false
	}
	return g.Keys[i], true
}

// Reach returns the addresses at which rclone reaches the storage. The port, and an address without a name, are those of
// the signed task.
func (g Grant) Reach(s protocol.Storage) (to []netip.AddrPort, err error) {
	host, port := s.Address()
	if a, err := netip.ParseAddr(host); err == nil {
		if a = a.Unmap().WithZone(""); !a.IsLoopback() && ofOwnServices(a) {
			return nil, fmt.Errorf("the endpoint %s is at an address of this computer's own services", s.Endpoint)
		}
		return []netip.AddrPort{netip.AddrPortFrom(a, port)}, nil
	}
	if len(g.Addresses) == 0 || len(g.Addresses) > maxAddresses {
		return nil, fmt.Errorf("%s has %d addresses, want 1 to %d", host, len(g.Addresses), maxAddresses)
	}
	for _, a := range g.Addresses {
		if a = a.Unmap().WithZone(""); a.IsLoopback() || ofOwnServices(a) {
			return nil, fmt.Errorf("%s has the address %s of this computer's own services: use an address in the URL of the endpoint, or another name", host, a)
		}
		to = append(to, netip.AddrPortFrom(a, port))
	}
	slices.SortFunc(to, netip.AddrPort.Compare)
	return slices.Compact(to), nil
}

func ofOwnServices(a netip.Addr) bool {
	return !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast() || netrules.Closed(a)
}

// Store contains the grants, by the uid of the tenant.
type Store struct {
	// Wanted reports that a step waits for keys. It is set before the first use, and may be nil.
	Wanted func()

	mu      sync.Mutex
	entries map[int]*entry
}

type entry struct {
	grant    *Grant
	failure  string        // of the last request
	rejected bool          // the control plane has no mounts for the allocation
	changed  chan struct{} // closed with the next change
}

func (s *Store) entry(uid int) *entry {
	if s.entries == nil {
		s.entries = map[int]*entry{}
	}
	h := s.entries[uid]
	if h == nil {
		h = &entry{changed: make(chan struct{})}
		s.entries[uid] = h
	}
	return h
}

func (h *entry) wake() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// Put stores a grant that has passed Check.
func (s *Store) Put(uid int, g Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.entry(uid)
	h.grant, h.failure, h.rejected = &g, "", false
	h.wake()
}

// Fail stores why the last request brought no keys. With rejected, no other request brings any.
func (s *Store) Fail(uid int, why string, rejected bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.entry(uid)
	h.failure, h.rejected = why, rejected
	h.wake()
}

// Drop deletes the keys of a uid.
func (s *Store) Drop(uid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, uid)
}

// Get returns the grant of a uid, if there is one, and whether the control plane has rejected to make one.
func (s *Store) Get(uid int) (g Grant, found, rejected bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.entries[uid]
	if h == nil {
		return g, false, false
	}
	if h.grant != nil {
		g, found = *h.grant, true
	}
	return g, found, h.rejected
}

// awaitFor limits how long a step waits for keys: the control plane responds within a second, or not for a while.
const awaitFor = 25 * time.Second

// Await returns the grant for the mounts of a task. It waits until there is one.
func (s *Store) Await(ctx context.Context, uid int, storage protocol.Storage) (Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, awaitFor)
	defer cancel()
	for asked := false; ; asked = true {
		s.mu.Lock()
		h := s.entry(uid)
		if h.grant != nil && h.grant.Check(storage) == nil {
			g := *h.grant
			s.mu.Unlock()
			return g, nil
		}
		if !asked {
			h.grant, h.failure, h.rejected = nil, "", false
		}
		failure, rejected, changed := h.failure, h.rejected, h.changed
		s.mu.Unlock()
		if rejected {
			return Grant{}, errors.New("the control plane gives no access keys: " + failure)
		}
		if !asked && s.Wanted != nil {
			s.Wanted()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if failure == "" {
				failure = "no response"
			}
			return Grant{}, fmt.Errorf("no access keys of the control plane were received in time: %s", failure)
		}
	}
}
