package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
)

// setting is one configuration file of the host OS that isolates tenants, with the program that
// reads it. No value of a task is part of the content.
type setting struct {
	name, text string
	mode       os.FileMode
	ifMissing  bool // only where there is none: an owner's own is as good
}

const scriptMode = 0o755

func (h *Host) settingFiles() []setting {
	return []setting{
		{name: "/etc/security/namespace.d/gpuaas.conf", text: h.namespaceConf(), mode: hostos.ConfigMode},
		{name: "/etc/security/namespace.d/gpuaas.init", text: namespaceInit, mode: scriptMode},
		{name: limitsFile, text: limitsConf, mode: hostos.ConfigMode},
		{name: "/etc/systemd/logind.conf.d/50-gpuaas.conf", text: logindConf, mode: hostos.ConfigMode},
		{name: "/etc/polkit-1/rules.d/00-gpuaas.rules", text: polkitRules, mode: hostos.ConfigMode},
		{name: "/etc/cron.allow", text: "root\n", mode: hostos.ConfigMode, ifMissing: true},
		{name: "/etc/at.allow", text: "root\n", mode: hostos.ConfigMode, ifMissing: true},
	}
}

const (
	written = "# Written by gpuaas-agent, and written again when it is changed.\n"

	// The limits that a slice does not have: descriptors of a process, and message queues, which would be
	// visible to all users.
	limitsConf = written + "* soft nofile 16384\n* hard nofile 65536\n* - msgqueue 0\n"
	limitsFile = "/etc/security/gpuaas-limits.conf"

	// The session has a proc of its own: hiding processes in the proc of the host OS would hide them from the
	// daemons of the host OS, too.
	namespaceInit = "#!/bin/sh\n" + written +
		"exec /usr/bin/mount -t proc -o nosuid,nodev,noexec,hidepid=invisible proc /proc\n"

	// A release waits until logind has removed the tenant's session state. By default logind does
	// that ten seconds after the last session.
	logindConf = written + "[Login]\nRemoveIPC=yes\nKillUserProcesses=no\nUserStopDelaySec=0\n"

	polkitRules = "// Written by gpuaas-agent, and written again when it is changed.\n" +
		"polkit.addRule(function (action, subject) {\n\tif (subject.isInGroup(\"" + Group + "\")) return polkit.Result.NO;\n});\n"

	// The first rule skips the others for all users who are no tenants, so that a host OS without one of
	// the modules locks out its tenants and not its owner.
	pamBlock = pamBegin +
		"session [success=2 default=ignore] pam_succeed_if.so quiet user notingroup " + Group + "\n" +
		"session required pam_limits.so conf=" + limitsFile + "\n" +
		"session required pam_namespace.so\n" + pamEnd
	pamBegin = "# gpuaas-agent begin\n"
	pamEnd   = "# gpuaas-agent end\n"
)

// offSettings lists the settings that differ from those that PutSettings writes.
func (h *Host) offSettings() (found []string) {
	off := func(format string, args ...any) {
		found = append(found, fmt.Sprintf("settings: "+format+", expected so", args...))
	}
	for _, s := range append(h.settingFiles(), setting{name: SSHDFile, text: sshdConf, mode: hostos.ConfigMode}) {
		if s.ifMissing && h.Exists(s.name) {
			continue
		}
		if !h.Holds(s.name, []byte(s.text), s.mode, 0) {
			off("%s is not as this agent writes it", s.name)
		}
	}
	if text, err := h.Read(pamFile); err != nil || !strings.HasSuffix(string(text), pamBlock) {
		off("%s does not end with the tenants' block", pamFile)
	}
	if info, err := os.Lstat(h.Path(hostos.ShmDir)); err != nil || !info.IsDir() || info.Mode().Perm() != 0 {
		off("%s is no closed folder", hostos.ShmDir)
	}
	if !h.Exists(revokedFile) {
		off("%s is not there", revokedFile)
	}
	if have := h.Text(sshdStamp); have != h.sshdHash() {
		off("sshd has not read its configuration since the last change")
	}
	for _, s := range h.sysctls() {
		if have := h.Text(s.path()); have != s.value {
			off("%s is %s and not %s", s.name, have, s.value)
		}
	}
	return found
}

// PutSettings implements step.Settings.
func (h *Host) PutSettings(ctx context.Context) error {
	h.shared.Lock()
	defer h.shared.Unlock()
	if err := h.addGroup(ctx, Group, 0); err != nil {
		return err
	}
	changed := map[string]bool{}
	for _, s := range h.settingFiles() {
		if s.ifMissing && h.Exists(s.name) {
			continue
		}
		did, err := h.Put(s.name, []byte(s.text), s.mode, 0)
		if err != nil {
			return err
		}
		changed[s.name] = did
	}
	if err := h.Folder(hostos.ShmDir, 0); err != nil {
		return err
	}
	if err := h.loginDirs(); err != nil {
		return err
	}
	if changed["/etc/systemd/logind.conf.d/50-gpuaas.conf"] {
		// logind reads its configuration again on SIGHUP, and its sessions stay open.
		if _, err := h.Command(ctx, hostos.Systemctl, "kill", "--signal=HUP", "systemd-logind.service"); err != nil {
			return fmt.Errorf("reloading logind: %w", err)
		}
	}
	if err := h.putPAM(); err != nil {
		return err
	}
	if err := h.putSysctls(ctx); err != nil {
		return err
	}
	if err := h.putRevoked(nil); err != nil {
		return err
	}
	return h.putSSHD(ctx)
}

// putPAM puts the block at the end of sshd's file and leaves the rest of the file unchanged.
func (h *Host) putPAM() error {
	text, err := h.Read(pamFile)
	if err != nil {
		return fmt.Errorf("reading %s: %w", pamFile, err)
	}
	if len(text) == 0 {
		return errors.New(pamFile + " does not exist: is sshd installed?")
	}
	rest := string(text)
	if before, after, found := strings.Cut(rest, pamBegin); found {
		_, after, _ = strings.Cut(after, pamEnd)
		rest = before + after
	}
	if !strings.HasSuffix(rest, "\n") {
		rest += "\n"
	}
	_, err = h.Put(pamFile, []byte(rest+pamBlock), hostos.ConfigMode, 0)
	return err
}

// sysctl is one setting of the kernel.
type sysctl struct{ name, value string }

func (s sysctl) path() string { return "/proc/sys/" + strings.ReplaceAll(s.name, ".", "/") }

// sysctlFile sets them at each start of the node.
const sysctlFile = "/etc/sysctl.d/60-gpuaas.conf"

// sysctls lists the settings of this kernel that restrict tenants. In a container
// there is none: the kernel belongs to the outer host OS.
func (h *Host) sysctls() (found []sysctl) {
	if h.Exists("/run/systemd/container") {
		return nil
	}
	// Each distribution has its own setting that denies user namespaces to users. The last setting
	// exists in every kernel and applies to root, too.
	for _, s := range []sysctl{
		{"kernel.unprivileged_userns_clone", "0"},
		{"kernel.apparmor_restrict_unprivileged_userns", "1"},
		{"user.max_user_namespaces", "0"},
	} {
		if h.Exists(s.path()) {
			found = append(found, s)
			break
		}
	}
	for _, s := range []sysctl{{"kernel.dmesg_restrict", "1"}, {"kernel.kptr_restrict", "1"}, {"kernel.perf_event_paranoid", "2"}, {"kernel.yama.ptrace_scope", "1"}} {
		if have := h.Text(s.path()); have == "" {
			continue // a kernel without it
		} else if have > s.value && len(have) == 1 {
			s.value = have // stricter is right too
		}
		found = append(found, s)
	}
	return found
}

func (h *Host) putSysctls(ctx context.Context) error {
	all := h.sysctls()
	if len(all) == 0 {
		return nil
	}
	text := []byte(written)
	for _, s := range all {
		text = fmt.Appendf(text, "%s = %s\n", s.name, s.value)
	}
	changed, err := h.Put(sysctlFile, text, hostos.ConfigMode, 0)
	if err != nil {
		return err
	}
	if !changed && !slices.ContainsFunc(all, func(s sysctl) bool { return h.Text(s.path()) != s.value }) {
		return nil
	}
	// By systemd: this process may not write the kernel's settings.
	if _, err := h.Command(ctx, hostos.Systemctl, "restart", "systemd-sysctl.service"); err != nil {
		return fmt.Errorf("applying %s: %w", sysctlFile, err)
	}
	return nil
}

// namespaceConf gives each session its own shared folders. A folder that the node does not have needs no rule:
// pam_namespace would reject the login.
func (h *Host) namespaceConf() string {
	var b strings.Builder
	b.WriteString(written)
	for _, folder := range h.PrivateFolders() {
		b.WriteString(folder.Path + " " + folder.Instance + " root\n")
	}
	return b.String()
}
