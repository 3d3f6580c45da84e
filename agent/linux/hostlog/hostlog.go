// Package hostlog reads the journal of systemd for the logs of allocations and nodes. It starts journalctl with constants and
// numbers, and writes lines of an allocation again from parts that no tenant controls.
package hostlog

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"time"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/logs"
	"github.com/gpuaas/gpuaas/protocol"
)

// sshdMessages selects what sshd of root writes. journald sets both fields from the kernel, so that no other program imitates it.
var sshdMessages = []string{"_UID=0", "_COMM=sshd", "+", "_UID=0", "_COMM=sshd-session"}

// journals are the arguments of journalctl for each source.
var journals = map[protocol.LogSource][]string{
	protocol.LogLogin:         sshdMessages,
	protocol.LogSSHD:          sshdMessages,
	protocol.LogKernel:        {"_TRANSPORT=kernel"},
	protocol.LogAgent:         {"--unit=gpuaas-agent.service"},
	protocol.LogHelper:        {"--unit=gpuaas-agent-helper.service"},
	protocol.LogFabricManager: {"--unit=nvidia-fabricmanager.service"},
	protocol.LogPersistenced:  {"--unit=nvidia-persistenced.service"},
	protocol.LogSystem:        {"--system"},
}

// maxRead limits the entries that are searched for the lines of an account.
const maxRead = 200000

// journalctl returns the arguments for a scope. They are constants and numbers.
func journalctl(s logs.Scope) ([]string, error) {
	source, known := journals[s.Source]
	if !known {
		return nil, protocol.Reject(protocol.ParamsInvalid, "this node has no log %q", s.Source)
	}
	args := []string{"--quiet", "--no-pager", "--output=export", "--output-fields=MESSAGE"}
	switch {
	case s.Follow:
		args = append(args, "--follow", "--no-tail")
	case s.User != "":
		args = append(args, "--lines="+strconv.Itoa(maxRead))
	default:
		args = append(args, "--lines="+strconv.Itoa(max(s.Tail, 1)))
	}
	if since := s.Since.Unix(); since > 0 {
		args = append(args, "--since=@"+strconv.FormatInt(since, 10))
	}
	return append(args, source...), nil
}

// Read calls each with the lines of a scope, oldest first. With Follow it goes on until ctx ends.
func Read(ctx context.Context, s logs.Scope, each func(logs.Line)) error {
	args, err := journalctl(s)
	if err != nil {
		return err
	}
	filter, err := filterOf(s)
	if err != nil {
		return err
	}
	return hostos.Follow(ctx, hostos.Journalctl, func(out io.Reader) error {
		return logs.ReadExport(out, func(at time.Time, message string) error {
			if text, ok := filter(message); ok && !at.Before(s.Since) {
				each(logs.Line{At: at, Text: text})
			}
			return nil
		})
	}, args...)
}

// filterOf returns the filter of a scope. Lines of an account are written again from the parts that sshd or the kernel controls,
// because the rest of a message can name other accounts or contain text of another tenant.
func filterOf(s logs.Scope) (func(message string) (string, bool), error) {
	switch {
	case s.User == "":
		return func(message string) (string, bool) { return message, true }, nil
	case s.Source == protocol.LogLogin:
		return func(message string) (string, bool) { return loginLine(message, s.User) }, nil
	case s.Source == protocol.LogKernel:
		return func(message string) (string, bool) { return oomLine(message, s.UID) }, nil
	}
	return nil, protocol.Reject(protocol.ParamsInvalid, "an allocation has no log %q", s.Source)
}

// logins are messages of sshd about an account that exists. In a message about any other name, "invalid user" precedes the name, so
// that a name with spaces cannot imitate one of these.
var logins = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`^Accepted publickey for (?P<user>\S+) from (?P<from>[0-9A-Fa-f.:]+) port (?P<port>[0-9]+) ssh2(: .*)?$`), "login accepted, from ${from} port ${port}"},
	{regexp.MustCompile(`^Failed publickey for (?P<user>\S+) from (?P<from>[0-9A-Fa-f.:]+) port (?P<port>[0-9]+) ssh2(: .*)?$`), "login failed, from ${from} port ${port}"},
	{regexp.MustCompile(`^Disconnected from user (?P<user>\S+) (?P<from>[0-9A-Fa-f.:]+) port (?P<port>[0-9]+)$`), "disconnected, from ${from} port ${port}"},
	{regexp.MustCompile(`^Connection (?P<what>closed|reset) by authenticating user (?P<user>\S+) (?P<from>[0-9A-Fa-f.:]+) port (?P<port>[0-9]+) \[preauth\]$`), "connection ${what} before the login, from ${from} port ${port}"},
	{regexp.MustCompile(`^pam_unix\(sshd:session\): session (?P<what>opened|closed) for user (?P<user>[^\s(]+)(\(uid=[0-9]+\))?( by .*)?$`), "session ${what}"},
}

// loginLine returns the line about a login to the account.
func loginLine(message, user string) (string, bool) {
	for _, l := range logins {
		match := l.pattern.FindStringSubmatchIndex(message)
		if match == nil {
			continue
		}
		if string(l.pattern.ExpandString(nil, "${user}", message, match)) != user {
			return "", false
		}
		return string(l.pattern.ExpandString(nil, l.text, message, match)), true
	}
	return "", false
}

// oomKill ends with two numbers of the kernel. A process chooses its name, and a tenant the names of cgroups, which precede them.
var oomKill = regexp.MustCompile(`^oom-kill:constraint=(?s:.*),pid=([0-9]+),uid=([0-9]+)$`)

// oomLine returns the line about a process of the account that the kernel has killed.
func oomLine(message string, uid int) (string, bool) {
	match := oomKill.FindStringSubmatch(message)
	if match == nil || match[2] != strconv.Itoa(uid) {
		return "", false
	}
	return fmt.Sprintf("out of memory: the kernel killed process %s of this allocation", match[1]), true
}
