package step

import (
	"context"

	"github.com/gpuaas/gpuaas/protocol"
)

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
