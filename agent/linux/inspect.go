package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/linux/mount"
	"github.com/gpuaas/gpuaas/agent/linux/process"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/protocol"
)

// Inspect implements step.Looker. It reads the settings in effect and not only the files: the
// slices that systemd has loaded, the rules of the kernel, and the processes that use a device.
func (h *Host) Inspect(ctx context.Context) (s step.State, err error) {
	before, err := h.tenants()
	if err != nil {
		return s, err
	}
	var cards []card
	var bound map[int]loaded
	var mounted map[int][]step.Mounted
	// Most of an inspection waits for the programs of the driver and of systemd. Files are read meanwhile.
	all, within := errgroup.WithContext(ctx)
	all.Go(func() (err error) { cards, err = h.cards(within); return err })
	all.Go(func() (err error) { bound, err = h.slices(within, uidsOf(before)); return err })
	all.Go(func() (err error) { s.Accounts, s.Unread, err = h.accounts(within); return err })
	all.Go(func() (err error) { mounted, err = h.mounts().Inspect(within); return err })
	if err := all.Wait(); err != nil {
		return s, err
	}
	now, err := h.tenants()
	if err != nil {
		return s, err
	}
	// After the programs: a process that started meanwhile is listed, and one that ended is not.
	processes, err := process.List(ctx, &h.OS)
	if err != nil {
		return s, err
	}
	s.Processes = processes.Using(computing(cards))
	for i := range s.Accounts {
		a := &s.Accounts[i]
		a.Limits, a.Mounts = bound[a.UID].limits, mounted[a.UID]
		a.Wrong = append(a.Wrong, h.wrong(bound[a.UID], a.Name, opened(cards, bound[a.UID]))...)
	}
	if s.GPUs, err = h.devices(cards, acting(before, now, s.Processes), bound); err != nil {
		return s, err
	}
	if s.Files, err = h.files(); err != nil {
		return s, err
	}
	support := h.support.Of(ctx, &h.OS)
	s.MountSupport = &support
	s.Settings, s.SSHD, s.HostKeys = h.offSettings(), h.sshdHash(), h.hostKeys()
	return s, nil
}

func uidsOf(tenants []tenantOf) []int {
	uids := make([]int, len(tenants))
	for i, t := range tenants {
		uids[i] = t.uid
	}
	return uids
}

// computing returns the GPUs of each process by the driver's list.
func computing(cards []card) map[int][]string {
	gpus := map[int][]string{}
	for _, c := range cards {
		for _, pid := range c.processes {
			gpus[pid] = append(gpus[pid], c.UUID)
		}
	}
	return gpus
}

// accounts lists the accounts of tenants without their slices. unread names, by uid, what could not be read of one of
// them.
func (h *Host) accounts(ctx context.Context) (found []step.Account, unread map[int]string, err error) {
	users, err := h.Users()
	if err != nil {
		return nil, nil, fmt.Errorf("reading accounts: %w", err)
	}
	mounts, err := h.Mounts()
	if err != nil {
		return nil, nil, err
	}
	inEffect, netsReason := h.nets.Inspect(ctx, &h.OS, h.Rules)
	groups, groupsErr := h.memberships()
	unread = map[int]string{}
	for _, u := range users {
		if !hostos.IsTenant(u.UID) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, nil, fmt.Errorf("reading accounts: %w", err)
		}
		a := step.Account{Name: u.Name, UID: u.UID, Access: accessOf(groups[u.Name]), Net: inEffect[u.UID], NetReason: netsReason}
		if a.Keys, a.Principals, err = h.inspectLogin(u.Name); err != nil {
			unread[u.UID] = err.Error()
		}
		a.Home, a.Wrong = h.homes().Inspect(u.Name, mounts)
		a.Wrong = append(a.Wrong, wrongUser(u, groups[u.Name], groupsErr)...)
		found = append(found, a)
	}
	return found, unread, nil
}

// opened lists the GPUs that a slice lets its processes open.
func opened(cards []card, l loaded) (own []card) {
	for _, c := range cards {
		if l.opens(c.file()) {
			own = append(own, c)
		}
	}
	return own
}

// memberships lists the groups of each member, except the group of all tenants.
func (h *Host) memberships() (map[string][]string, error) {
	found := map[string][]string{}
	err := h.Lines(hostos.GroupFile, func(line string) {
		f := strings.Split(line, ":")
		const fields = 4
		if len(f) != fields || f[0] == Group {
			return
		}
		for member := range strings.SplitSeq(f[3], ",") {
			found[member] = append(found[member], f[0])
		}
	})
	return found, err
}

// accessOf returns the rules for logins of a member of groups.
func accessOf(groups []string) (a protocol.Access) {
	if !slices.Contains(groups, directGroup) {
		a.LoginFrom = protocol.FromLoopback
	}
	if slices.Contains(groups, forwardGroup) {
		a.Forwarding = protocol.ForwardLocal
	}
	return a
}

// wrongUser lists the differences of the account itself. groups are those that it is a member of.
func wrongUser(u hostos.User, groups []string, groupsErr error) (found []string) {
	if u.GID != u.UID {
		found = append(found, fmt.Sprintf("account: %s has group %d, expected %d", u.Name, u.GID, u.UID))
	}
	if u.Home != hostos.HomeOf(u.Name) {
		found = append(found, fmt.Sprintf("account: %s is at home in %s, expected %s", u.Name, u.Home, hostos.HomeOf(u.Name)))
	}
	for _, group := range groups {
		if group == directGroup || group == forwardGroup {
			continue // the step of the login compares them
		}
		found = append(found, fmt.Sprintf("account: %s is in group %s, expected in %s only", u.Name, group, Group))
	}
	if groupsErr != nil {
		found = append(found, fmt.Sprintf("account: the groups of %s cannot be read, expected %s", u.Name, Group))
	}
	return found
}

// devices lists the GPUs with who can open them: by what is loaded, or will be with
// the next reload. A slice without a device policy opens every GPU, but not to a tenant without an account and a
// process: its slice is loaded before the account is created, and is removed after it.
func (h *Host) devices(cards []card, tenants []tenantOf, bound map[int]loaded) (found []step.Device, err error) {
	clean, err := h.clean()
	if err != nil {
		return nil, fmt.Errorf("reading which GPUs are clean: %w", err)
	}
	written := make([]string, len(tenants))
	for i, t := range tenants {
		text, err := h.Read(dropIn(t.uid))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", dropIn(t.uid), err)
		}
		written[i] = string(text)
	}
	for _, c := range cards {
		d := step.Device{UUID: c.UUID, Dirty: !clean[c.UUID], Health: c.Health, Reasons: c.Reasons, Off: c.off}
		for i, t := range tenants {
			slice := bound[t.uid]
			if slice.lists(c.file()) || t.account && slice.opens(c.file()) || strings.Contains(written[i], "DeviceAllow="+c.file()+" ") {
				d.Users = append(d.Users, t.name)
			}
		}
		found = append(found, d)
	}
	return found, nil
}

// files lists a tenant's files in the folders that only this package writes. The leftover scan
// searches the rest.
func (h *Host) files() (found []step.File, err error) {
	for _, dir := range []string{hostos.HomesDir, KeysDir, PrincipalsDir, ProbeDir, mount.Dir} {
		entries, err := os.ReadDir(h.Path(dir))
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		for _, e := range entries {
			uid, err := h.uidOf(dir, e)
			if err != nil {
				return nil, err
			}
			if uid >= hostos.MinUID {
				found = append(found, step.File{Path: filepath.Join(dir, e.Name()), UID: uid})
			}
		}
	}
	return found, nil
}

// uidOf returns the uid of an entry: by its number, by its group, or by the account of its name. The
// account may be gone since the folder was listed.
func (h *Host) uidOf(dir string, e os.DirEntry) (int, error) {
	if uid, err := strconv.Atoi(e.Name()); err == nil {
		return uid, nil
	}
	info, err := e.Info()
	if errors.Is(err, os.ErrNotExist) {
		return -1, nil
	} else if err != nil {
		return -1, err
	}
	if _, gid := hostos.OwnerOf(info); gid >= hostos.MinUID && dir != hostos.HomesDir {
		return gid, nil
	}
	users, err := h.Users()
	if err != nil {
		return -1, err
	}
	name, _, _ := strings.Cut(e.Name(), ".")
	for _, u := range users {
		if u.Name == name {
			return u.UID, nil
		}
	}
	return -1, nil
}
