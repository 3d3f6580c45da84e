package linux

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/linux/krl"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/protocol"
)

var principalName = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

const (
	keyFileMode = 0o640 // root's, and readable by the tenant's own group: sshd reads as the tenant
	caFileMode  = 0o644
)

// maxSerials bounds the node's list of revoked serials: certificates live for five minutes, so the
// oldest serials have long been of no use.
const maxSerials = 10000

// PutLogin implements step.Logins. It writes revocations before the keys and authorities that allow
// logins.
func (h *Host) PutLogin(ctx context.Context, l step.Login) error {
	if err := hostos.CheckTenant(l.User, l.UID); err != nil {
		return err
	}
	keys, err := keyLines(l.Keys)
	if err != nil {
		return err
	}
	authorities, err := keyLines(l.CAs)
	if err != nil {
		return err
	}
	principal := ""
	if l.Principal != "" {
		if !principalName.MatchString(l.Principal) {
			return fmt.Errorf("%q is no principal", l.Principal)
		}
		principal = l.Principal + "\n"
	}
	h.shared.Lock()
	defer h.shared.Unlock()
	if err := h.putRevoked(l.Revoked); err != nil {
		return err
	}
	if len(l.CAs) > 0 {
		if _, err := h.Put(userCAFile, []byte(authorities), caFileMode, 0); err != nil {
			return err
		}
	}
	if err := h.loginDirs(); err != nil {
		return err
	}
	if _, err := h.Put(filepath.Join(PrincipalsDir, l.User), []byte(principal), keyFileMode, l.UID); err != nil {
		return err
	}
	if _, err := h.Put(filepath.Join(KeysDir, l.User), []byte(keys), keyFileMode, l.UID); err != nil {
		return err
	}
	// After the files: a key that leaked is removed even if the groups cannot be changed.
	if err := h.putAccess(ctx, l.User, l.Access); err != nil {
		return err
	}
	return h.setShell(ctx, l.User, loginShell)
}

// putAccess puts an account into the groups of its rules. sshd reads the groups at each login.
func (h *Host) putAccess(ctx context.Context, name string, want protocol.Access) error {
	have, err := h.memberships()
	if err != nil {
		return fmt.Errorf("reading groups: %w", err)
	}
	if accessOf(have[name]) == want {
		return nil
	}
	groups := []string{Group}
	if want.LoginFrom == "" {
		groups = append(groups, directGroup)
	}
	if want.Forwarding == protocol.ForwardLocal {
		groups = append(groups, forwardGroup)
	}
	for _, group := range groups {
		if err := h.addGroup(ctx, group, 0); err != nil {
			return err
		}
	}
	if _, err := h.Command(ctx, hostos.Usermod, "--groups", strings.Join(groups, ","), name); err != nil {
		return fmt.Errorf("setting the groups of %s: %w", name, err)
	}
	return nil
}

// setShell sets the shell of an existing account if it differs. usermod fails for a missing account, and a release
// must succeed if the account is gone already.
func (h *Host) setShell(ctx context.Context, name, shell string) error {
	users, err := h.Users()
	if err != nil {
		return fmt.Errorf("reading accounts: %w", err)
	}
	i := slices.IndexFunc(users, func(u hostos.User) bool { return u.Name == name })
	if i < 0 || users[i].Shell == shell {
		return nil
	}
	if _, err := h.Command(ctx, hostos.Usermod, "--shell", shell, name); err != nil {
		return fmt.Errorf("setting the shell of %s: %w", name, err)
	}
	return nil
}

// putRevoked adds serials to the revoked ones of the host OS. The task of one allocation must not remove
// what another one has revoked.
func (h *Host) putRevoked(serials []uint64) error {
	list, err := h.Read(revokedFile)
	if err != nil {
		return fmt.Errorf("reading %s: %w", revokedFile, err)
	}
	have, err := krl.Parse(list)
	if err != nil {
		have = nil // not written by the agent, and without our revocations: it is replaced
	}
	all := slices.Compact(slices.Sorted(slices.Values(append(have, serials...))))
	all = all[max(0, len(all)-maxSerials):]
	_, err = h.Put(revokedFile, krl.Format(all), caFileMode, 0)
	return err
}

func (h *Host) loginDirs() error {
	for _, dir := range []string{filepath.Dir(KeysDir), KeysDir, PrincipalsDir, ProbeDir} {
		if err := h.Folder(dir, hostos.DirMode); err != nil {
			return err
		}
	}
	return nil
}

// BlockLogin implements step.Logins.
func (h *Host) BlockLogin(ctx context.Context, name string, uid int) error {
	if err := h.RemoveLogin(ctx, name, uid); err != nil {
		return err
	}
	h.shared.Lock()
	defer h.shared.Unlock()
	return h.setShell(ctx, name, noShell)
}

// RemoveLogin implements step.Logins.
func (h *Host) RemoveLogin(_ context.Context, name string, uid int) error {
	if err := hostos.CheckTenant(name, uid); err != nil {
		return err
	}
	h.shared.Lock()
	defer h.shared.Unlock()
	for _, dir := range []string{PrincipalsDir, KeysDir, ProbeDir} {
		if _, err := h.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// keyLines returns a file of plain keys. An option such as command= is rejected, because it would run
// outside the account of the tenant.
func keyLines(keys []string) (string, error) {
	var b strings.Builder
	for i, line := range keys {
		key, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil || len(options) > 0 || len(rest) > 0 || strings.ContainsAny(line, "\r\n\x00") {
			return "", fmt.Errorf("public key %d is not one key without options", i+1)
		}
		// Written from the parsed key, so that sshd cannot interpret the line in another way.
		b.Write(ssh.MarshalAuthorizedKey(key))
	}
	return b.String(), nil
}

// inspectLogin reads the keys and principals that open the account. It ignores empty lines and comments, as sshd does.
func (h *Host) inspectLogin(name string) (keys, principals []string, err error) {
	err = h.Lines(filepath.Join(KeysDir, name), func(line string) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			keys = append(keys, line)
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading keys of %s: %w", name, err)
	}
	err = h.Lines(filepath.Join(PrincipalsDir, name), func(line string) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			principals = append(principals, line)
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading principals of %s: %w", name, err)
	}
	return keys, principals, nil
}
