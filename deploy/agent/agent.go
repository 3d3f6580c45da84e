// Package agent contains the files that a node needs for the agent: its units, its user and its
// directories. The agent embeds them, and installs them itself.
package agent

import "embed"

//go:embed *.service *.socket *.timer *.conf
var files embed.FS

// File is one of them, and where it goes.
type File struct{ Name, Path string }

// The units, by name.
const (
	NetworkUnit = "gpuaas-agent.service"
	HelperUnit  = "gpuaas-agent-helper.service"
	SSHDSocket  = "gpuaas-agent-sshd.socket"
	SSHDUnit    = "gpuaas-agent-sshd.service"
	GuardUnit   = "gpuaas-agent-guard.service"
	GuardTimer  = "gpuaas-agent-guard.timer" // enabled like the two halves
)

// Files lists all that is installed.
func Files() []File {
	return []File{
		{NetworkUnit, "/etc/systemd/system/" + NetworkUnit},
		{HelperUnit, "/etc/systemd/system/" + HelperUnit},
		{SSHDSocket, "/etc/systemd/system/" + SSHDSocket},
		{SSHDUnit, "/etc/systemd/system/" + SSHDUnit},
		{GuardUnit, "/etc/systemd/system/" + GuardUnit},
		{GuardTimer, "/etc/systemd/system/" + GuardTimer},
		{"gpuaas-agent.sysusers.conf", "/etc/sysusers.d/gpuaas-agent.conf"},
		{"gpuaas-agent.tmpfiles.conf", "/etc/tmpfiles.d/gpuaas-agent.conf"},
	}
}

// Text is the content of the file.
func (f File) Text() ([]byte, error) { return files.ReadFile(f.Name) }
