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
	// minUID keeps tenants away from accounts of the system and of people.
	minUID = 200000
	// maxUID is below the nobody accounts of 32-bit tools.
	maxUID = 1<<31 - 2
	// maxKeys bounds one account's file of keys.
	maxKeys = 100
	// maxRevoked bounds the list of serials: certificates end in five minutes, so
	// only those of that time are of use.
	maxRevoked = 1000
	// maxLevel of a health check.
	maxLevel = 3
	// maxBinary is far above what the agent weighs.
	maxBinary = 256 << 20
)

var (
	userName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)
	gpuUUID  = regexp.MustCompile(`^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	digest   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	build    = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$`)
)

// Order is what an allocation task asks for, checked.
type Order struct {
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
}

// Order reads and checks the parameters. Each type has its own form; another
// type is refused. For a type about the node the order is empty.
func (e Envelope) Order() (Order, error) {
	switch e.Type {
	case ProvisionUser:
		return e.provision()
	case RotateKeys:
		return e.rotation()
	case RevokeUser:
		return e.revocation()
	case Probe:
		return Order{}, exact(e.Params, &ProbeParams{})
	case HealthCheck:
		_, err := e.HealthCheck()
		return Order{}, err
	case GPUReset:
		_, err := e.GPUReset()
		return Order{}, err
	case AgentUpdate:
		_, err := e.AgentUpdate()
		return Order{}, err
	}
	return Order{}, Reject(TypeUnknown, "no handler for %q in capability %d", e.Type, Capability)
}

func (e Envelope) provision() (Order, error) {
	var p ProvisionUserParams
	if err := exact(e.Params, &p); err != nil {
		return Order{}, err
	}
	switch {
	case p.Principal != "" && p.Principal != e.Allocation.String():
		return Order{}, Reject(ParamsInvalid, "principal %q is not the allocation", p.Principal)
	case len(p.UserCA) > 0 && p.Principal == "":
		return Order{}, Reject(ParamsInvalid, "an authority without a principal would accept all of its certificates")
	case p.StopAfterHours < 0:
		return Order{}, Reject(ParamsInvalid, "stop_after_hours is negative")
	}
	if err := p.Limits.check(); err != nil {
		return Order{}, err
	}
	return e.checked(Order{
		User: p.User, UID: p.UID, PublicKeys: p.PublicKeys, GPUs: p.GPUs, Limits: p.Limits,
		UserCA: p.UserCA, Principal: p.Principal, Revoked: p.Revoked, StopAfterHours: p.StopAfterHours,
	})
}

func (e Envelope) rotation() (Order, error) {
	var p RotateKeysParams
	if err := exact(e.Params, &p); err != nil {
		return Order{}, err
	}
	return e.checked(Order{
		User: p.User, UID: p.UID, PublicKeys: p.PublicKeys, GPUs: p.GPUs,
		UserCA: p.UserCA, Principal: e.Allocation.String(), Revoked: p.Revoked,
	})
}

func (e Envelope) revocation() (Order, error) {
	var p RevokeUserParams
	if err := exact(e.Params, &p); err != nil {
		return Order{}, err
	}
	if p.Mode != "clear" && p.Mode != "purge" {
		return Order{}, Reject(ParamsInvalid, "mode %q is neither clear nor purge", p.Mode)
	}
	return e.checked(Order{User: p.User, UID: p.UID, GPUs: p.GPUs, Purge: p.Mode == "purge"})
}

// HealthCheck reads and checks the parameters of a health check.
func (e Envelope) HealthCheck() (p HealthCheckParams, err error) {
	if err := exact(e.Params, &p); err != nil {
		return p, err
	}
	if p.Level < 0 || p.Level > maxLevel {
		return p, Reject(ParamsInvalid, "level %d is not 0 to %d", p.Level, maxLevel)
	}
	return p, nil
}

// GPUReset reads and checks the parameters of a reset.
func (e Envelope) GPUReset() (p GPUResetParams, err error) {
	if err := exact(e.Params, &p); err != nil {
		return p, err
	}
	if !gpuUUID.MatchString(p.GPU) {
		return p, Reject(ParamsInvalid, "%q is no UUID of a GPU", p.GPU)
	}
	return p, nil
}

// AgentUpdate reads and checks the parameters of an update. What they promise is
// signed by a release key, which the handler asks for.
func (e Envelope) AgentUpdate() (p AgentUpdateParams, err error) {
	if err := exact(e.Params, &p); err != nil {
		return p, err
	}
	switch {
	case !build.MatchString(p.Version):
		return p, Reject(ParamsInvalid, "%q is no version", p.Version)
	case !digest.MatchString(p.Digest):
		return p, Reject(ParamsInvalid, "the digest is no SHA-256 in hex")
	case p.Size <= 0 || p.Size > maxBinary:
		return p, Reject(ParamsInvalid, "a binary of %d bytes, at most %d", p.Size, maxBinary)
	}
	return p, nil
}

func (l Limits) check() error {
	const maxWeight = 10000 // of systemd's CPUWeight
	if l.CPUWeight < 0 || l.CPUWeight > maxWeight || l.MemoryMiB < 0 || l.Tasks < 0 || l.HomeGiB < 0 {
		return Reject(ParamsInvalid, "limits %+v are not valid", l)
	}
	return nil
}

// exact decodes parameters and, as with the envelope, demands the canonical form.
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

func (e Envelope) checked(o Order) (Order, error) {
	switch {
	case !userName.MatchString(o.User):
		return Order{}, Reject(ParamsInvalid, "%q is no account name of a tenant", o.User)
	case o.UID < minUID || o.UID > maxUID:
		return Order{}, Reject(ParamsInvalid, "uid %d is not a tenant's", o.UID)
	case !slices.Equal(o.GPUs, e.Slots):
		return Order{}, Reject(ParamsInvalid, "the GPUs are not those of the envelope's slots")
	case len(o.GPUs) == 0:
		return Order{}, Reject(ParamsInvalid, "no GPU is named")
	}
	for _, uuid := range o.GPUs {
		if !gpuUUID.MatchString(uuid) {
			return Order{}, Reject(ParamsInvalid, "%q is no UUID of a GPU", uuid)
		}
	}
	return o, o.logins()
}

// logins checks who the order lets in.
func (o Order) logins() error {
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

// checkKeys refuses whatever is not one plain key a line. An option such as
// command= would run outside what the tenant was given.
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
