// Package hook holds the steps of a node's work, one file each. A step looks
// whether its effect is there, makes it, looks again, and can take it back. All
// are levels: done twice equals once, undone twice too.
//
// It refuses to believe a step because it returned: verify probes the effect, and
// the scan at the end of a release knows nothing of the steps before it.
package hook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/agent/wire"
)

// Step is one step of a task. A nil function has nothing to do.
type Step struct {
	Name   string
	Within time.Duration // for check, do and verify together
	Code   wire.Refusal  // what a failure of this step is called

	// Check says whether the effect is there already. An error refuses.
	Check func(context.Context, Host, wire.Order) (done bool, err error)
	Do    func(context.Context, Host, wire.Order) error
	// Verify probes the effect from outside.
	Verify func(context.Context, Host, wire.Order) error
	Undo   func(context.Context, Host, wire.Order) error
}

// Steps lists what a task of a type is made of, in order. The switch is the whole
// list of what a node can be told to do.
func Steps(t wire.Type) []Step {
	switch t {
	case wire.ProvisionUser:
		// Login keys come last before the proof: nobody gets in while the devices
		// still hold what an earlier tenant left.
		return []Step{gpuHealth(), evict(), scrubBefore(), account(), deviceAccess(), loginKeys(), verifyInside()}
	case wire.RevokeUser:
		return []Step{blockLogin(), killProcesses(), removeAccess(), evict(), scrubAfter(), removeAccount(), scan()}
	case wire.RotateKeys:
		return []Step{loginKeys(), verifyInside()}
	case wire.Probe, wire.HealthCheck, wire.GPUReset, wire.AgentUpdate:
		return nil // about the node, and not made of steps
	}
	return nil
}

// Names lists the steps of a type.
func Names(t wire.Type) (names []string) {
	for _, s := range Steps(t) {
		names = append(names, s.Name)
	}
	return names
}

// Host is what the steps look at and change.
type Host interface {
	Looker
	Accounts
	Devices
}

// Looker reads the whole of what the steps care about at one moment.
type Looker interface {
	Look(context.Context) (State, error)
}

// Accounts are the users of the operating system.
type Accounts interface {
	// PutAccount makes the account, or corrects it. A fresh one lets nobody in.
	PutAccount(ctx context.Context, name string, uid int) error
	// SetKeys makes these, and no others, the keys that log in.
	SetKeys(ctx context.Context, name string, keys []string) error
	// RemoveAccount removes it and every file of its uid, also where either is
	// gone already.
	RemoveAccount(ctx context.Context, name string, uid int) error
}

// Devices are the GPUs and what runs on the host.
type Devices interface {
	// Grant makes these, and no others, the GPUs that the user can open.
	Grant(ctx context.Context, user string, gpus []string) error
	Kill(ctx context.Context, pid int) error
	// Scrub overwrites the GPU's memory and reads samples back.
	Scrub(ctx context.Context, gpu string) error
}

// State is what a host looks like at one moment.
type State struct {
	Accounts  []Account
	GPUs      []Device
	Processes []Process
	Files     []File
}

// Account is a user of the operating system.
type Account struct {
	Name string
	UID  int
	Keys []string
}

// Device is a GPU with who can open it.
type Device struct {
	UUID    string
	Users   []string
	Dirty   bool // somebody could write to its memory since the last scrub
	Health  wire.Health
	Reasons []string
}

// Process of the host. GPU is the device that it uses, or empty.
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

func (s State) of(uid int) (found []Process) {
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

// look is Look for a step that wants one answer from it.
func look[T any](ctx context.Context, h Host, ask func(State) T) (T, error) {
	s, err := h.Look(ctx)
	if err != nil {
		var zero T
		return zero, fmt.Errorf("looking at the host: %w", err)
	}
	return ask(s), nil
}

// clean turns findings into an error that names the first of them.
func clean(findings []string, err error) error {
	if err != nil || len(findings) == 0 {
		return err
	}
	return fmt.Errorf("%s (%d findings)", findings[0], len(findings))
}

const (
	// quick is for steps that ask the kernel and wait for nothing.
	quick = 10 * time.Second
	// scrubFor is per task: a board of 80 GiB is overwritten in about a second,
	// its reset takes ten.
	scrubFor = 2 * time.Minute
)
