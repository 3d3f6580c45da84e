package hostlog

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/logs"
	"github.com/gpuaas/gpuaas/protocol"
)

// Lines of a tenant contain what sshd and the kernel control. Text that others choose selects no line and is in none.
func TestLinesOfAnAccount(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"Accepted publickey for u-1 from 127.0.0.1 port 4022 ssh2: ED25519-CERT SHA256:abc ID allocation (serial 7) CA ED25519": "login accepted, from 127.0.0.1 port 4022",
		"Failed publickey for u-1 from ::1 port 4022 ssh2: ED25519 SHA256:abc":                                                  "login failed, from ::1 port 4022",
		"Disconnected from user u-1 127.0.0.1 port 4022":                                                                        "disconnected, from 127.0.0.1 port 4022",
		"Connection closed by authenticating user u-1 127.0.0.1 port 4022 [preauth]":                                            "connection closed before the login, from 127.0.0.1 port 4022",
		"pam_unix(sshd:session): session opened for user u-1(uid=200001) by (uid=0)":                                            "session opened",
		"pam_unix(sshd:session): session closed for user u-1":                                                                   "session closed",

		"Accepted publickey for u-2 from 127.0.0.1 port 4022 ssh2":                                     "",
		"Accepted publickey for u-11 from 127.0.0.1 port 4022 ssh2":                                    "",
		"Failed publickey for invalid user u-1 from 127.0.0.1 port 1 ssh2":                             "",
		"Failed publickey for invalid user x for u-1 from 127.0.0.1 port 1 ssh2":                       "",
		"Invalid user Accepted publickey for u-1 from 127.0.0.1 port 1 ssh2 from 10.0.0.1":             "",
		"Connection closed by invalid user u-1 127.0.0.1 port 4022 [preauth]":                          "",
		"Accepted publickey for u-1 from evil text port 1 ssh2":                                        "",
		"pam_unix(sshd:session): session opened for user u-2(uid=200002) by u-1(uid=0)":                "",
		"x\nAccepted publickey for u-1 from 127.0.0.1 port 4022 ssh2":                                  "",
		"Accepted publickey for u-2 from 127.0.0.1 port 1 ssh2: session opened for user u-1(uid=2000)": "",
	} {
		if got, ok := loginLine(message, "u-1"); got != want || ok != (want != "") {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
	const oom = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/user.slice/user-200001.slice,task_memcg=/user.slice,task="
	for message, want := range map[string]bool{
		oom + "python,pid=77,uid=200001":                          true,
		oom + "a,pid=1,uid=200002,pid=77,uid=200001":              true, // a process names itself
		oom + "python,pid=77,uid=200002":                          false,
		oom + "a,pid=1,uid=200001,pid=77,uid=200002":              false,
		oom + "python,pid=77,uid=2000011":                         false,
		"user text: " + oom + "python,pid=77,uid=200001":          false,
		"NVRM: Xid (PCI:0000:0f:00): 79, pid=77,uid=200001":       false,
		"Out of memory: Killed process 77 (python) uid=200001":    false,
		oom + "python,pid=77,uid=200001\nforged after the number": false,
	} {
		got, ok := oomLine(message, 200001)
		if ok != want || ok && got != "out of memory: the kernel killed process 77 of this allocation" {
			t.Errorf("%q: %q %v, want %v", message, got, ok, want)
		}
	}
}

// The arguments are constants and numbers, whatever a query contains.
func TestTheArgumentsOfTheJournal(t *testing.T) {
	t.Parallel()
	for _, source := range append(slices.Clone(protocol.NodeLogs), protocol.LogLogin) {
		args, err := journalctl(logs.Scope{Source: source, User: "-oevil", Since: time.Unix(1767603604, 999), Follow: true})
		if err != nil || !slices.Contains(args, "--since=@1767603604") || !slices.Contains(args, "--follow") || strings.Contains(strings.Join(args, " "), "evil") {
			t.Errorf("%s: %q, %v", source, args, err)
		}
	}
	if args, err := journalctl(logs.Scope{Source: "--file=/etc/shadow"}); err == nil {
		t.Errorf("an unknown source: %q", args)
	}
	for _, source := range []protocol.LogSource{protocol.LogSystem, protocol.LogHelper, protocol.LogAgent, protocol.LogSSHD} {
		if _, err := filterOf(logs.Scope{Source: source, User: "u-1"}); err == nil {
			t.Errorf("an account reads the source %s", source)
		}
	}
}
