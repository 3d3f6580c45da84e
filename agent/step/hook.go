// Package step contains the steps of a node task, one file each. A step checks whether its effect is
// present, makes it, checks it again, and can undo it. Each is idempotent: running or undoing it twice
// has the same effect as once.
//
// A step that returned is no evidence. Verify probes the effect, and the leftover scan at the end of a
// release shares no code with the steps before it.
package step

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/protocol"
)

// Step is one step of a task. A nil function has nothing to do.
type Step struct {
	Name   string
	Within time.Duration         // for all its functions together, but for Undo
	Code   protocol.RejectReason // what a failure of this step is called

	// Check says whether the effect is there already. An error refuses.
	Check func(context.Context, Host, protocol.Order) (done bool, err error)
	Do    func(context.Context, Host, protocol.Order) error
	// Verify probes the effect from outside.
	Verify func(context.Context, Host, protocol.Order) error
	// Prove comes last, whether there was anything to do or not, and writes what it
	// finds into the proof.
	Prove func(context.Context, Host, protocol.Order, *protocol.Proof) error
	Undo  func(context.Context, Host, protocol.Order) error
}

// Steps lists what a task of a type is made of, in order. The switch is the whole
// list of what a node can be told to do.
func Steps(t protocol.Type) []Step {
	switch t {
	case protocol.ProvisionUser:
		// Login keys come last before the proof: nobody gets in while the devices
		// still hold what an earlier tenant left.
		return []Step{
			gpuHealth(), evict(), scrubBefore(), baseline(), settings(), account(), home(), deviceAccess(), network(), loginKeys(), verifyInside(),
		}
	case protocol.RotateKeys:
		// Nothing else is looked at: a key that leaked must go also where a GPU is
		// sick, and nobody's open session is disturbed.
		return []Step{loginKeys(), verifyKeys()}
	case protocol.RevokeUser:
		return []Step{
			blockLogin(), endSessions(), removeAccess(), evict(), scrubAfter(), sweep(), removeHome(), removeAccount(), dropIns(), scan(),
		}
	case protocol.Probe, protocol.HealthCheck, protocol.GPUReset, protocol.AgentUpdate:
		return nil // about the node, and not made of steps
	}
	return nil
}

// Names lists the steps of a type.
func Names(t protocol.Type) (names []string) {
	for _, s := range Steps(t) {
		names = append(names, s.Name)
	}
	return names
}

// Host is what the steps look at and change. A method that puts something makes it
// so, or corrects it, and does nothing where it is so already; one that removes
// something does nothing where it is gone.
type Host interface {
	Looker
	Tenancy
	Devices
	Sessions
	Prober
	Leftovers
}

// Looker reads the whole of what the steps care about at one moment.
type Looker interface {
	Inspect(context.Context) (State, error)
}

// Tenancy is what a host holds of a tenant while nobody is logged in.
type Tenancy interface {
	Settings
	Accounts
	Homes
	Logins
	Slices
	Nets
}

// Settings are the host's own, the same for every tenant: they stay when one leaves.
type Settings interface {
	PutSettings(context.Context) error
}

// Accounts are the users of the operating system.
type Accounts interface {
	// PutAccount makes the account. A fresh one lets nobody in. It refuses a name or
	// uid that is somebody else's.
	PutAccount(ctx context.Context, name string, uid int) error
	// RemoveAccount fails while a process of the uid lives.
	RemoveAccount(ctx context.Context, name string, uid int) error
}

// Homes are file systems of their own, one for each tenant.
type Homes interface {
	// PutHome makes an empty home of that size; zero is the host's fair share. One
	// whose key died with the host's last start is made anew.
	PutHome(ctx context.Context, name string, uid int, gib int64) error
	// RemoveHome destroys the key first, then the home.
	RemoveHome(ctx context.Context, name string, uid int) error
}

// Login is who gets into an account.
type Login struct {
	User      string
	UID       int
	Principal string   // certificates for it log in; empty: none
	Keys      []string // these registered keys, and no others
	CAs       []string // what signs certificates, on the whole host
	Revoked   []uint64 // serials, added to those that the host refuses already
}

// Logins are the ways in.
type Logins interface {
	PutLogin(ctx context.Context, l Login) error
	// BlockLogin lets nobody in any more. What is in stays until it is ended.
	BlockLogin(ctx context.Context, name string, uid int) error
	RemoveLogin(ctx context.Context, name string, uid int) error
}

// Slice is what an account may use of its host.
type Slice struct {
	User   string
	UID    int
	GPUs   []string // these, and no others, open
	Limits protocol.Limits
}

// Slices hold what a tenant runs.
type Slices interface {
	PutSlice(ctx context.Context, s Slice) error
	RemoveSlice(ctx context.Context, name string, uid int) error
}

// Nets say where a tenant may connect to.
type Nets interface {
	PutNet(ctx context.Context, name string, uid int) error
	RemoveNet(ctx context.Context, name string, uid int) error
}

// Devices are the GPUs and what runs on the host.
type Devices interface {
	// Shut closes the GPUs to the user, who may be nobody's tenant, and leaves all
	// else of that user as it is.
	Shut(ctx context.Context, user string, gpus []string) error
	// Baseline puts the GPU's modes to what every tenant gets.
	Baseline(ctx context.Context, gpu string) error
	Kill(ctx context.Context, pid int) error
	// Scrub overwrites the GPU's memory and reads samples back.
	Scrub(ctx context.Context, gpu string) error
}

// Sessions are what a tenant runs.
type Sessions interface {
	// End ends everything of the uid, wherever it runs, and returns when it is gone.
	End(ctx context.Context, name string, uid int) error
}

// Prober logs in as the tenant would and tries what must work and what must not.
type Prober interface {
	ProbeInside(ctx context.Context, o protocol.Order) ([]protocol.ProbeResult, error)
}

// Leftovers are what a tenant leaves outside its home.
type Leftovers interface {
	Sweep(ctx context.Context, name string, uid int) error
	// Scan looks for anything of the tenant by means that no step shares.
	Scan(ctx context.Context, name string, uid int, gpus []string) ([]string, error)
}

// look is Look for a step that wants one answer from it.
func look[T any](ctx context.Context, h Host, ask func(State) T) (T, error) {
	s, err := h.Inspect(ctx)
	if err != nil {
		var zero T
		return zero, fmt.Errorf("reading the state of the node: %w", err)
	}
	return ask(s), nil
}

// absent is a check, and a verification, that nothing is found.
func absent(ask func(State, protocol.Order) []string) (check func(context.Context, Host, protocol.Order) (bool, error), verify func(context.Context, Host, protocol.Order) error) {
	check = func(ctx context.Context, h Host, o protocol.Order) (bool, error) {
		return look(ctx, h, func(s State) bool { return len(ask(s, o)) == 0 })
	}
	verify = func(ctx context.Context, h Host, o protocol.Order) error {
		return clean(look(ctx, h, func(s State) []string { return ask(s, o) }))
	}
	return check, verify
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
	// fair is for steps that start children of the host: systemd reads its units again
	// (measured: two seconds under load), a file system is made, a login is tried.
	fair = 30 * time.Second
	// thorough is for steps that look at every file of the host: a million of them are
	// read in seconds from memory, in minutes from a disk.
	thorough = 5 * time.Minute
	// scrubFor is per task: a board of 80 GiB is overwritten in about a second,
	// its reset takes ten.
	scrubFor = 2 * time.Minute
)
