package linux

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/protocol"
)

// sshdConf is the configuration of sshd for tenants. The lines before the first Match apply to all users
// and contain only what the rest depends on: pam_systemd puts a session into the slice of its uid, so
// without PAM no limit would apply to a tenant.
//
// The first value of a keyword counts, so the blocks for single accounts are before the one for all. Logins through the
// agent have an address of loopback as their source.
//
// AuthorizedKeysFile names a second file for the key of a probe, which exists for a second or two.
// Certificates of the authority log in tenants only.
const sshdConf = written + `UsePAM yes
StrictModes yes
PermitUserEnvironment no
Match Group ` + Group + `,!` + directGroup + ` Address *,!127.0.0.0/8,!::1
	DenyGroups ` + Group + `
Match Group ` + forwardGroup + `
	DisableForwarding no
	PermitOpen any
	AllowTcpForwarding local
	AllowStreamLocalForwarding local
Match Group ` + Group + `
	AuthenticationMethods publickey
	PubkeyAuthentication yes
	PasswordAuthentication no
	KbdInteractiveAuthentication no
	HostbasedAuthentication no
	PermitEmptyPasswords no
	AuthorizedKeysCommand none
	AuthorizedKeysFile ` + KeysDir + `/%u ` + ProbeDir + `/%u
	TrustedUserCAKeys ` + userCAFile + `
	AuthorizedPrincipalsCommand none
	AuthorizedPrincipalsFile ` + PrincipalsDir + `/%u
	RevokedKeys ` + revokedFile + `
	PermitUserRC no
	AllowAgentForwarding no
	AllowTcpForwarding no
	AllowStreamLocalForwarding no
	X11Forwarding no
	GatewayPorts no
	PermitTunnel no
	ForceCommand none
	ChrootDirectory none
	MaxSessions 10
	ClientAliveInterval 30
	ClientAliveCountMax 4
Match all
`

// hostKeys returns the public host keys of sshd. A file that is no key is left out: clients would reject the key anyway.
func (h *Host) hostKeys() (lines []string) {
	files, err := filepath.Glob(h.Path("/etc/ssh/ssh_host_*_key.pub"))
	if err != nil {
		return nil // the pattern is constant, and good
	}
	for _, file := range files { // sorted
		text, err := h.Read(filepath.Join("/etc/ssh", filepath.Base(file)))
		if err != nil {
			continue
		}
		if key, _, _, _, err := ssh.ParseAuthorizedKey(text); err == nil {
			lines = append(lines, protocol.HostKeyLine(key))
		}
	}
	return lines
}

// sshdStamp contains the hash of the configuration that sshd loaded last.
const sshdStamp = "/run/gpuaas/sshd"

// sshdHash returns the hash of everything that decides about logins, except the keys.
func (h *Host) sshdHash() string {
	sum := sha256.New()
	more, err := filepath.Glob(h.Path("/etc/ssh/sshd_config.d/*.conf"))
	if err != nil {
		more = nil // the pattern is constant, and good
	}
	files := []string{"/etc/ssh/sshd_config", pamFile}
	for _, file := range more {
		files = append(files, filepath.Join("/etc/ssh/sshd_config.d", filepath.Base(file)))
	}
	slices.Sort(files)
	for _, file := range files {
		text, err := h.Read(file)
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Fprintf(sum, "%s %d\n%s", file, len(text), text)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// putSSHD loads the configuration into sshd if it is not loaded. A file that sshd rejects is removed at
// once, because sshd would not start again with it.
func (h *Host) putSSHD(ctx context.Context) error {
	before, err := h.Read(SSHDFile)
	if err != nil {
		return fmt.Errorf("reading %s: %w", SSHDFile, err)
	}
	changed, err := h.Put(SSHDFile, []byte(sshdConf), hostos.ConfigMode, 0)
	if err != nil {
		return err
	}
	if !changed && h.Text(sshdStamp) == h.sshdHash() {
		return nil
	}
	if _, err := h.Command(ctx, hostos.SSHD, "-t"); err != nil {
		return errors.Join(fmt.Errorf("sshd rejects its configuration: %w", err), h.restore(changed, before))
	}
	if _, err := h.Command(ctx, hostos.Systemctl, "reload", "ssh.service"); err != nil {
		return fmt.Errorf("reloading sshd: %w", err)
	}
	_, err = h.Put(sshdStamp, []byte(h.sshdHash()+"\n"), hostos.ConfigMode, 0)
	return err
}

func (h *Host) restore(changed bool, before []byte) error {
	if !changed {
		return nil
	}
	if len(before) == 0 {
		_, err := h.Remove(SSHDFile)
		return err
	}
	_, err := h.Put(SSHDFile, before, hostos.ConfigMode, 0)
	return err
}

// effective returns the configuration that sshd uses for a login of the account from an address.
func (h *Host) effective(ctx context.Context, name, address string) (map[string]string, error) {
	out, err := h.Command(ctx, hostos.SSHD, "-T", "-C", "user="+name+",host="+address+",addr="+address+",laddr=127.0.0.1")
	if err != nil {
		return nil, fmt.Errorf("asking sshd for its configuration: %w", err)
	}
	return parseEffective(out), nil
}

// parseEffective reads the lines of sshd -T. The first line of a key counts, as for sshd.
func parseEffective(out []byte) map[string]string {
	found := map[string]string{}
	for line := range bytes.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		if _, there := found[key]; !there {
			found[key] = value
		}
	}
	return found
}
