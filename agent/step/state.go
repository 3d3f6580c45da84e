package step

import (
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/protocol"
)

// State is the state of the host OS at one moment.
type State struct {
	Accounts  []Account
	GPUs      []Device
	Processes []Process
	Files     []File
	// Settings names the settings that differ from those that this build sets, in the form
	// of Differences.
	Settings []string
	// SSHD is the hash of what decides who logs in.
	SSHD string
	// HostKeys are the public host keys of the SSH server, as in a report.
	HostKeys []string
	// MountSupport describes whether this node can mount stored objects.
	MountSupport *protocol.MountSupport
	// Unread names, by uid, what of a tenant could not be read. The rest of the state is complete: one
	// tenant cannot hide the others.
	Unread map[int]string
}

// Account is a user of the operating system.
type Account struct {
	Name       string
	UID        int
	Keys       []string
	Principals []string
	Access     protocol.Access
	Home       Home
	Limits     protocol.Limits // in force
	Net        bool            // its rules are in effect
	NetReason  string          // why they could not be read
	Mounts     []Mounted       // of stored objects, as they were put
	// Wrong names what else of it is not as it was put, in the form of Differences:
	// each begins with account, home or slice, and that step puts it right.
	Wrong []string
}

func (a Account) wrong(field string) []string {
	return slices.DeleteFunc(slices.Clone(a.Wrong), func(w string) bool { return !strings.HasPrefix(w, field+":") })
}

// Home of an account.
type Home struct {
	GiB  int64 // 0: there is none
	Open bool
	Lost bool // the last start of the node lost its key
	// Sealed means that a key which is only in the kernel's memory opens it.
	Sealed bool
}

// Device is a GPU with who can open it.
type Device struct {
	UUID    string
	Users   []string
	Dirty   bool // a process could write to its memory since the last scrub
	Health  protocol.Health
	Reasons []string
	Off     []string // modes that are not at their baseline
}

// Process is a process of the host OS. GPU is the device that it uses, or empty; one that uses several is listed once
// for each.
type Process struct {
	PID, UID int
	GPU      string
	Command  string
}

// File that is not part of the operating system.
type File struct {
	Path string
	UID  int
}

func (s State) account(name string) (Account, bool) {
	i := slices.IndexFunc(s.Accounts, func(a Account) bool { return a.Name == name })
	if i < 0 {
		return Account{}, false
	}
	return s.Accounts[i], true
}

func (s State) device(uuid string) (Device, bool) {
	i := slices.IndexFunc(s.GPUs, func(d Device) bool { return d.UUID == uuid })
	if i < 0 {
		return Device{}, false
	}
	return s.GPUs[i], true
}

// on lists the processes that use one of the GPUs.
func (s State) on(gpus []string) (found []Process) {
	for _, p := range s.Processes {
		if slices.Contains(gpus, p.GPU) {
			found = append(found, p)
		}
	}
	return found
}

func (s State) processesOf(uid int) (found []Process) {
	for _, p := range s.Processes {
		if p.UID == uid {
			found = append(found, p)
		}
	}
	return found
}

// granted lists the GPUs that the user can open, sorted.
func (s State) granted(user string) (gpus []string) {
	for _, d := range s.GPUs {
		if slices.Contains(d.Users, user) {
			gpus = append(gpus, d.UUID)
		}
	}
	slices.Sort(gpus)
	return gpus
}
