package wire

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
)

var (
	userName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)
	gpuUUID  = regexp.MustCompile(`^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

// Order is what an allocation task asks for, checked.
type Order struct {
	User       string
	UID        int
	PublicKeys []string
	GPUs       []string
	Purge      bool
}

// Order reads and checks the parameters. Each type has its own form; another
// type is refused.
func (e Envelope) Order() (Order, error) {
	switch e.Type {
	case ProvisionUser:
		var p ProvisionUserParams
		if err := exact(e.Params, &p); err != nil {
			return Order{}, err
		}
		if err := checkKeys(p.PublicKeys); err != nil {
			return Order{}, err
		}
		return e.checked(Order{User: p.User, UID: p.UID, PublicKeys: p.PublicKeys, GPUs: p.GPUs})
	case RevokeUser:
		var p RevokeUserParams
		if err := exact(e.Params, &p); err != nil {
			return Order{}, err
		}
		if p.Mode != "clear" && p.Mode != "purge" {
			return Order{}, Refuse(ParamsInvalid, "mode %q is neither clear nor purge", p.Mode)
		}
		return e.checked(Order{User: p.User, UID: p.UID, GPUs: p.GPUs, Purge: p.Mode == "purge"})
	case Probe:
		return Order{}, exact(e.Params, &ProbeParams{})
	}
	return Order{}, Refuse(TypeUnknown, "no handler for %q in capability %d", e.Type, Capability)
}

// exact decodes parameters and, as with the envelope, demands the canonical form.
func exact(params json.RawMessage, into any) error {
	if err := Strict(bytes.NewReader(params), into); err != nil {
		return Refuse(ParamsInvalid, "parameters: %v", err)
	}
	again, err := json.Marshal(into)
	if err != nil || !bytes.Equal(again, params) {
		return Refuse(ParamsInvalid, "parameters are not in their canonical form")
	}
	return nil
}

func (e Envelope) checked(o Order) (Order, error) {
	switch {
	case !userName.MatchString(o.User):
		return Order{}, Refuse(ParamsInvalid, "%q is no account name of a tenant", o.User)
	case o.UID < minUID || o.UID > maxUID:
		return Order{}, Refuse(ParamsInvalid, "uid %d is not a tenant's", o.UID)
	case !slices.Equal(o.GPUs, e.Slots):
		return Order{}, Refuse(ParamsInvalid, "the GPUs are not those of the envelope's slots")
	case len(o.GPUs) == 0:
		return Order{}, Refuse(ParamsInvalid, "no GPU is named")
	}
	for _, uuid := range o.GPUs {
		if !gpuUUID.MatchString(uuid) {
			return Order{}, Refuse(ParamsInvalid, "%q is no UUID of a GPU", uuid)
		}
	}
	return o, nil
}

// checkKeys refuses whatever is not one plain key a line. An option such as
// command= would run outside what the tenant was given.
func checkKeys(lines []string) error {
	if len(lines) > maxKeys {
		return Refuse(ParamsInvalid, "%d public keys, at most %d", len(lines), maxKeys)
	}
	for i, line := range lines {
		_, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil || len(options) > 0 || len(rest) > 0 || strings.ContainsAny(line, "\r\n\x00") {
			return Refuse(ParamsInvalid, "public key %d is not one key without options", i+1)
		}
	}
	return nil
}
