package protocol

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

const (
	// minUID is above the uids of system accounts and of the operators' accounts.
	minUID = 200000
	// maxUID is below the overflow uid of 32-bit programs.
	maxUID = 1<<31 - 2
	// maxKeys limits the file of keys of one account.
	maxKeys = 100
	// maxRevoked limits the list of serials. A certificate is valid for five minutes, so only the
	// serials of that time matter.
	maxRevoked = 1000
)

var (
	userName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)
	gpuUUID  = regexp.MustCompile(`^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	digest   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	build    = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$`)
)

// AllocationParams contains the request of a task with the scope of an allocation, in one form for all types and
// checked.
type AllocationParams struct {
	User       string
	UID        int
	PublicKeys []string
	GPUs       []string
	Purge      bool

	Limits         Limits
	UserCA         []string
	Principal      string
	Revoked        []uint64
	StopAfterHours int
	Storage        *Storage // nil without mounts

	Access
}

// AllocationParams decodes and checks the parameters. It rejects an unknown type. The parameters of a task with the scope
// of the node are empty.
func (e Envelope) AllocationParams() (AllocationParams, error) {
	row, exists := e.Type.row()
	if !exists {
		return AllocationParams{}, Reject(TypeUnknown, "no handler for %q in capability %d", e.Type, Capability)
	}
	p, err := row.decode(e)
	if err != nil {
		return AllocationParams{}, err
	}
	if allocation, ok := p.(interface {
		allocationParams(e Envelope) AllocationParams
	}); ok {
		return allocation.allocationParams(e), nil
	}
	return AllocationParams{}, nil
}

// AmendedBy returns the parameters of a provisioning as a later task of the same allocation has changed it.
func (e Envelope) AmendedBy(later Envelope) (AllocationParams, error) {
	p, err := Applied(e, &later)
	return p.allocationParams(e), err
}

func (l Limits) check() error {
	const maxWeight = 10000 // of systemd's CPUWeight
	if l.CPUWeight < 0 || l.CPUWeight > maxWeight || l.MemoryMiB < 0 || l.Tasks < 0 || l.HomeGiB < 0 {
		return Reject(ParamsInvalid, "limits %+v are not valid", l)
	}
	return nil
}

// exact decodes parameters and, as parse does for envelopes, accepts only the canonical form.
func exact(params json.RawMessage, into any) error {
	if err := Strict(bytes.NewReader(params), into); err != nil {
		return Reject(ParamsInvalid, "parameters: %v", err)
	}
	again, err := json.Marshal(into)
	if err != nil || !bytes.Equal(again, params) {
		return Reject(ParamsInvalid, "parameters are not in their canonical form")
	}
	return nil
}

func (o AllocationParams) check(e Envelope) error {
	switch {
	case !userName.MatchString(o.User):
		return Reject(ParamsInvalid, "%q is no account name of a tenant", o.User)
	case o.UID < minUID || o.UID > maxUID:
		return Reject(ParamsInvalid, "uid %d is not a tenant's", o.UID)
	case !slices.Equal(o.GPUs, e.Slots):
		return Reject(ParamsInvalid, "the GPUs are not those of the envelope's slots")
	case len(o.GPUs) == 0:
		return Reject(ParamsInvalid, "no GPU is named")
	}
	for _, uuid := range o.GPUs {
		if !gpuUUID.MatchString(uuid) {
			return Reject(ParamsInvalid, "%q is no UUID of a GPU", uuid)
		}
	}
	if err := o.Access.check(); err != nil {
		return err
	}
	return o.checkLogins()
}

// checkLogins checks the keys and certificates that log in.
func (o AllocationParams) checkLogins() error {
	if err := checkKeys(o.PublicKeys); err != nil {
		return err
	}
	if err := checkKeys(o.UserCA); err != nil {
		return err
	}
	rising := slices.IsSorted(o.Revoked) && len(slices.Compact(slices.Clone(o.Revoked))) == len(o.Revoked)
	if len(o.Revoked) > maxRevoked || !rising {
		return Reject(ParamsInvalid, "%d revoked serials: want rising ones, at most %d", len(o.Revoked), maxRevoked)
	}
	return nil
}

// checkKeys rejects everything except one plain key per line. An option such as command= would run
// outside the account of the tenant.
func checkKeys(lines []string) error {
	if len(lines) > maxKeys {
		return Reject(ParamsInvalid, "%d public keys, at most %d", len(lines), maxKeys)
	}
	for i, line := range lines {
		_, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil || len(options) > 0 || len(rest) > 0 || strings.ContainsAny(line, "\r\n\x00") {
			return Reject(ParamsInvalid, "public key %d is not one key without options", i+1)
		}
	}
	return nil
}
