package mount

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/agent/storagekey"
	"github.com/gpuaas/gpuaas/protocol"
)

// Mounts makes and removes the mounts of tenants.
type Mounts struct {
	*hostos.OS

	Support *Support
	// Permit lets a uid reach the storage.
	Permit func(ctx context.Context, uid int, to []netip.AddrPort) error
	// EndSlice ends the programs of a tenant that use the mounts. It returns when ctx ends, at the latest.
	EndSlice func(ctx context.Context, name string, uid int)
}

// spec lists the mounts of a tenant. It is stored, so that a report names what is missing.
type spec struct {
	Name      string           `json:"name"`
	Storage   protocol.Storage `json:"storage"`
	CacheMiB  int64            `json:"cache_mib"` // of each mount
	CPUWeight int              `json:"cpu_weight,omitempty"`
}

func (m *Mounts) read(uid int) (s spec, found bool, err error) {
	text, err := m.Read(specFile(uid))
	if err != nil || text == nil {
		return s, false, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, true, fmt.Errorf("reading %s: %w", specFile(uid), err)
	}
	return s, true, nil
}

// Put makes exactly the mounts of a tenant whose home exists. A mount that exists stays.
func (m *Mounts) Put(ctx context.Context, name string, uid int, homeGiB int64, cpuWeight int, storage protocol.Storage, g storagekey.Grant) error {
	if lacks := m.Support.Of(ctx, m.OS).Missing; lacks != "" {
		return fmt.Errorf("this node cannot mount stored objects: it has no %s", lacks)
	}
	if err := errors.Join(checkEndpoint(storage), g.Check(storage)); err != nil {
		return err
	}
	const mib = 1 << 10 // in a GiB
	s := spec{Name: name, Storage: storage, CPUWeight: cpuWeight, CacheMiB: max(leastCacheMiB, homeGiB*mib*cacheShare/100/int64(len(storage.Mounts)))}
	if before, found, err := m.read(uid); err != nil || found && !reflect.DeepEqual(before.Storage, storage) {
		if _, err := m.Remove(ctx, name, uid); err != nil {
			return err
		}
	}
	to, err := g.Reach(storage)
	if err != nil {
		return err
	}
	if err := m.Permit(ctx, uid, to); err != nil {
		return err
	}
	if err := m.makeCaches(name, uid, len(storage.Mounts)); err != nil {
		return err
	}
	changed, err := m.write(uid, s, g)
	if err != nil {
		return err
	}
	if err := m.Reload(ctx); err != nil {
		return err
	}
	return m.start(ctx, uid, changed)
}

// makeCaches makes the folders of the caches.
func (m *Mounts) makeCaches(name string, uid, mounts int) error {
	const pass = 0o710
	if err := errors.Join(m.Folder(cachesDir(name), pass), os.Lchown(m.Path(cachesDir(name)), 0, cacheGroup)); err != nil {
		return err
	}
	for n := range mounts {
		if err := errors.Join(m.Folder(cacheDir(name, n), 0o700), os.Lchown(m.Path(cacheDir(name, n)), uid, uid)); err != nil {
			return err
		}
	}
	return nil
}

// write writes the files of all mounts, and returns the numbers of those whose files have changed.
func (m *Mounts) write(uid int, s spec, g storagekey.Grant) (changed []int, err error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(m.Folder(Dir, hostos.DirMode), m.Folder(dirOf(uid), hostos.DirMode)); err != nil {
		return nil, err
	}
	if _, err := m.OS.Put(specFile(uid), text, 0o600, 0); err != nil {
		return nil, err
	}
	if _, err := m.OS.Put(unitFile(sliceName(uid)), []byte(Slice(uid, len(s.Storage.Mounts), s.CPUWeight)), hostos.ConfigMode, 0); err != nil {
		return nil, err
	}
	for n, mount := range s.Storage.Mounts {
		key, _ := g.Of(mount.At) // Check has found it
		config, err := m.OS.Put(configFile(uid, n), []byte(Config(s.Storage.Endpoint, key)), configMode, uid)
		if err != nil {
			return nil, err
		}
		o := Options{Name: s.Name, UID: uid, Number: n, Endpoint: s.Storage.Endpoint, Bucket: s.Storage.Bucket, Mount: mount, CacheMiB: s.CacheMiB}
		unit, err := m.OS.Put(unitFile(unitName(uid, n)), []byte(Unit(o)), hostos.ConfigMode, 0)
		if err != nil {
			return nil, err
		}
		if config || unit {
			changed = append(changed, n)
		}
	}
	return changed, nil
}

// start starts the units that are changed or do not mount.
func (m *Mounts) start(ctx context.Context, uid int, changed []int) error {
	states, err := m.Inspect(ctx)
	if err != nil {
		return err
	}
	args := []string{"restart", "--"}
	for n, state := range states[uid] {
		if !state.Mounted || slices.Contains(changed, n) {
			args = append(args, unitName(uid, n))
		}
	}
	if len(args) == 2 {
		return nil
	}
	_, failed := m.Command(ctx, hostos.Systemctl, args...)
	if states, err = m.Inspect(ctx); err != nil {
		return err
	}
	for _, state := range states[uid] {
		if !state.Mounted {
			return fmt.Errorf("mounting %q at %s: %s", state.Path, state.At, state.Message)
		}
	}
	return failed
}

// Inspect returns the mounts that were put, by the uid of the tenant. A mount counts if its unit is active and the
// kernel has it at its place.
func (m *Mounts) Inspect(ctx context.Context) (map[int][]step.Mounted, error) {
	found := map[int][]step.Mounted{}
	dirs, err := os.ReadDir(m.Path(Dir))
	if errors.Is(err, os.ErrNotExist) || err == nil && len(dirs) == 0 {
		return found, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading mounts of stored objects: %w", err)
	}
	table, err := m.Mounts()
	if err != nil {
		return nil, err
	}
	reasons, cancel := context.WithTimeout(ctx, reasonsWithin)
	defer cancel()
	for _, dir := range dirs {
		uid, err := strconv.Atoi(dir.Name())
		if err != nil || !hostos.IsTenant(uid) {
			continue
		}
		s, put, err := m.read(uid)
		if err != nil {
			return nil, err
		}
		if !put {
			continue
		}
		active := m.active(ctx, uid, len(s.Storage.Mounts))
		for n, mount := range s.Storage.Mounts {
			state := step.Mounted{Mount: mount, Endpoint: s.Storage.Endpoint, Bucket: s.Storage.Bucket, CPUWeight: s.CPUWeight}
			switch at, exists := table[point(s.Name, mount.At)]; {
			case active[n] != "active":
				state.Message = m.reason(reasons, uid, n, active[n])
			case !exists || !at.FUSEOf(uid):
				state.Message = "the folder was moved, or unmounted by the tenant"
			default:
				state.Mounted = true
			}
			found[uid] = append(found[uid], state)
		}
	}
	return found, nil
}
