package step

import (
	"context"

	"github.com/gpuaas/gpuaas/protocol"
)

// Host contains the operations of the steps on the host OS. A Put method creates or corrects its object,
// and a Remove method deletes it. Both do nothing if the object is in that state already.
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

// Tenancy contains the objects of a tenant that exist without a session.
type Tenancy interface {
	Settings
	Accounts
	Files
	Logins
	Slices
	Nets
}

// Settings are settings of the host OS that are the same for every tenant. They stay after a
// release.
type Settings interface {
	PutSettings(context.Context) error
}

// Accounts are the users of the operating system.
type Accounts interface {
	// PutAccount creates the account, without a login. It rejects a name or uid of another account.
	PutAccount(ctx context.Context, name string, uid int) error
	// RemoveAccount fails while a process of the uid lives.
	RemoveAccount(ctx context.Context, name string, uid int) error
}

// Files are the homes and the stored objects that they show.
type Files interface {
	Homes
	Mounts
}

// Homes are file systems of their own, one for each tenant.
type Homes interface {
	// PutHome creates an empty home of that size. Zero means a fair share of the disk. A home whose key
	// was lost with the last start of the host OS is replaced.
	PutHome(ctx context.Context, name string, uid int, gib int64) error
	// RemoveHome destroys the key first, then the home.
	RemoveHome(ctx context.Context, name string, uid int) error
}

// Login contains the keys and certificates that log in to an account.
type Login struct {
	User      string
	UID       int
	Principal string   // certificates for it log in; empty: none
	Keys      []string // these registered keys, and no others
	CAs       []string // the CAs of login certificates of the whole node
	Revoked   []uint64 // serials, added to the revoked ones of the host OS
	Access    protocol.Access
}

// Logins are the ways in.
type Logins interface {
	PutLogin(ctx context.Context, l Login) error
	// BlockLogin prevents new logins. Open sessions stay until End.
	BlockLogin(ctx context.Context, name string, uid int) error
	RemoveLogin(ctx context.Context, name string, uid int) error
}

// Slice is the share of the host OS that an account may use.
type Slice struct {
	User   string
	UID    int
	GPUs   []string // these, and no others, open
	Limits protocol.Limits
}

// Slices contain the processes of a tenant.
type Slices interface {
	PutSlice(ctx context.Context, s Slice) error
	RemoveSlice(ctx context.Context, name string, uid int) error
}

// Nets restrict where a tenant may connect to.
type Nets interface {
	PutNet(ctx context.Context, name string, uid int) error
	RemoveNet(ctx context.Context, name string, uid int) error
}

// Devices are the GPUs and the processes of the host OS.
type Devices interface {
	// Shut revokes the access of the user to the GPUs and leaves all other access of that user. The user
	// need not be a tenant.
	Shut(ctx context.Context, user string, gpus []string) error
	// Baseline puts the GPU's modes to what every tenant gets.
	Baseline(ctx context.Context, gpu string) error
	Kill(ctx context.Context, pid int) error
	// Scrub overwrites the GPU's memory and reads samples back.
	Scrub(ctx context.Context, gpu string) error
}

// Sessions contains the processes of a tenant.
type Sessions interface {
	// End ends every process of the uid, in every slice, and returns after all have ended.
	End(ctx context.Context, name string, uid int) error
}

// Prober logs in as the tenant would and tries what must work and what must not.
type Prober interface {
	ProbeInside(ctx context.Context, o protocol.AllocationParams) ([]protocol.ProbeResult, error)
}

// Leftovers contains the traces of a tenant outside its home.
type Leftovers interface {
	Sweep(ctx context.Context, name string, uid int) error
	// Scan searches for everything of the tenant. It shares no code with the steps.
	Scan(ctx context.Context, name string, uid int, gpus []string) ([]string, error)
}
