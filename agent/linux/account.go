package linux

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/protocol"
)

const (
	loginShell = "/bin/bash"
	noShell    = "/usr/sbin/nologin"
)

// PutAccount implements step.Accounts.
func (h *Host) PutAccount(ctx context.Context, name string, uid int) error {
	if err := hostos.CheckTenant(name, uid); err != nil {
		return err
	}
	h.shared.Lock()
	defer h.shared.Unlock()
	there, err := h.ours(name, uid)
	if err != nil {
		return err
	}
	if !there {
		// The slice is created before the account: an account without a slice of ours could open every
		// GPU.
		if !h.Exists(dropIn(uid)) {
			if err := h.bind(ctx, uid, h.render(name, nil, h.share(protocol.Limits{}, 0, 1))); err != nil {
				return err
			}
		}
		if err := h.addUser(ctx, name, uid); err != nil {
			return err
		}
	}
	// A fresh account has "!" for a password, which sshd treats as a locked one. "*"
	// matches no password either, and locks nothing.
	if _, err := h.Command(ctx, hostos.Usermod, "--password", "*", "--shell", loginShell, "--home", hostos.HomeOf(name), "--groups", Group, name); err != nil {
		return fmt.Errorf("opening account %s: %w", name, err)
	}
	return nil
}

// ours reports whether the account exists, and rejects an account of another user.
func (h *Host) ours(name string, uid int) (there bool, err error) {
	users, err := h.Users()
	if err != nil {
		return false, fmt.Errorf("reading accounts: %w", err)
	}
	for _, u := range users {
		switch {
		case (u.Name == name) != (u.UID == uid):
			return false, fmt.Errorf("account %s has uid %d; %s with uid %d was ordered", u.Name, u.UID, name, uid)
		case u.Name == name && u.GID != uid:
			return false, fmt.Errorf("account %s has group %d and not one of its own", name, u.GID)
		case u.Name == name:
			there = true
		}
	}
	return there, h.outsideSubordinates(uid)
}

// outsideSubordinates rejects a uid that another user can obtain in a user namespace, because that user
// could read all files of the tenant.
func (h *Host) outsideSubordinates(uid int) (err error) {
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		readErr := h.Lines(file, func(line string) {
			f := strings.Split(line, ":")
			const fields = 3
			if len(f) != fields {
				return
			}
			first, bad := strconv.Atoi(f[1])
			count, worse := strconv.Atoi(f[2])
			if bad == nil && worse == nil && uid >= first && uid-first < count {
				err = fmt.Errorf("uid %d is subordinate to %s by %s", uid, f[0], file)
			}
		})
		if readErr != nil {
			return fmt.Errorf("reading %s: %w", file, readErr)
		}
	}
	return err
}

// addUser creates the account with a shell that allows no login, and without subordinate ids: with them the tenant
// could create files of other uids, which the leftover scan would not assign to it.
func (h *Host) addUser(ctx context.Context, name string, uid int) error {
	if err := h.addGroup(ctx, Group, 0); err != nil {
		return err
	}
	if err := h.addGroup(ctx, name, uid); err != nil {
		return err
	}
	id := strconv.Itoa(uid)
	_, err := h.Command(ctx, hostos.Useradd, "--no-log-init", "--uid", id, "--gid", id, "--groups", Group, "--home-dir", hostos.HomeOf(name), "--no-create-home",
		"--shell", noShell, "-K", "SUB_UID_COUNT=0", "-K", "SUB_GID_COUNT=0", name)
	if err != nil {
		return fmt.Errorf("adding account %s: %w", name, err)
	}
	return nil
}

// addGroup creates a group, unless there is one of the name. If gid is zero, the host OS chooses the number.
func (h *Host) addGroup(ctx context.Context, name string, gid int) error {
	have, there := 0, false
	err := h.Lines(hostos.GroupFile, func(line string) {
		if f := strings.Split(line, ":"); f[0] == name && len(f) > 2 {
			have, _ = strconv.Atoi(f[2])
			there = true
		}
	})
	switch {
	case err != nil:
		return fmt.Errorf("reading groups: %w", err)
	case there && gid != 0 && have != gid:
		return fmt.Errorf("group %s has gid %d; %d was ordered", name, have, gid)
	case there:
		return nil
	}
	args := []string{"--system", name}
	if gid != 0 {
		args = []string{"--gid", strconv.Itoa(gid), name}
	}
	if _, err := h.Command(ctx, hostos.Groupadd, args...); err != nil {
		return fmt.Errorf("adding group %s: %w", name, err)
	}
	return nil
}

// stillInUse is the exit code of userdel while a process of the user is alive.
const stillInUse = 8

// RemoveAccount implements step.Accounts.
func (h *Host) RemoveAccount(ctx context.Context, name string, uid int) error {
	if err := hostos.CheckTenant(name, uid); err != nil {
		return err
	}
	h.shared.Lock()
	defer h.shared.Unlock()
	users, err := h.Users()
	if err != nil {
		return fmt.Errorf("reading accounts: %w", err)
	}
	for _, u := range users {
		if u.Name != name || u.UID != uid {
			continue // another account, also if only the name or the uid is equal
		}
		_, err := h.Command(ctx, hostos.Userdel, name)
		switch {
		case hostos.ExitCode(err) == stillInUse:
			// What was killed has escaped its cgroup: a retry would only hide it.
			return fmt.Errorf("account %s is still in use: %w", name, err)
		case err != nil:
			return fmt.Errorf("removing account %s: %w", name, err)
		}
	}
	if err := h.removeGroup(ctx, name, uid); err != nil {
		return err
	}
	return h.unbind(ctx, uid)
}

// removeGroup removes the account's own group. userdel leaves the group if another account is a member of it.
func (h *Host) removeGroup(ctx context.Context, name string, gid int) error {
	there := false
	err := h.Lines(hostos.GroupFile, func(line string) {
		f := strings.Split(line, ":")
		there = there || len(f) > 2 && f[0] == name && f[2] == strconv.Itoa(gid)
	})
	if err != nil {
		return fmt.Errorf("reading groups: %w", err)
	}
	if !there {
		return nil
	}
	if _, err := h.Command(ctx, hostos.Groupdel, name); err != nil {
		return fmt.Errorf("removing group %s: %w", name, err)
	}
	return nil
}
