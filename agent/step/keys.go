package step

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/protocol"
)

// PutLoginKeys allows logins with the keys of the task, and with no others. Open sessions stay.
func PutLoginKeys() Step {
	check, verify := absent(otherLogins)
	return Step{
		Name: "login_keys", Within: fair, Code: protocol.StepFailed, Check: check, Verify: verify,
		Do: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			return h.PutLogin(ctx, Login{User: o.User, UID: o.UID, Principal: o.Principal, Keys: o.PublicKeys, CAs: o.UserCA, Revoked: o.Revoked, Access: o.Access})
		},
		// A session that began meanwhile would block the removal of the home, which follows.
		Undo: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			if err := noLogin(ctx, h, o); err != nil {
				return err
			}
			return h.End(ctx, o.User, o.UID)
		},
	}
}

// VerifyKeys writes the fingerprints of the active login keys into the proof, so that a rotation is proved
// by its effect.
func VerifyKeys() Step {
	check, verify := absent(otherLogins)
	return Step{
		Name: "verify_keys", Within: quick, Code: protocol.VerifyFailed, Verify: verify,
		Check: func(ctx context.Context, h Host, o protocol.AllocationParams) (bool, error) {
			_, err := check(ctx, h, o)
			return true, err
		},
		Prove: func(ctx context.Context, h Host, o protocol.AllocationParams, p *protocol.Proof) error {
			p.Checks = append(p.Checks, "login_keys")
			return proveLogin(ctx, h, o, p)
		},
	}
}

func proveLogin(ctx context.Context, h Host, o protocol.AllocationParams, p *protocol.Proof) error {
	s, err := inspect(ctx, h, o)
	if err != nil {
		return err
	}
	if err := clean(otherLogins(s, o), nil); err != nil {
		return err
	}
	a, _ := s.account(o.User)
	p.SSHD = s.SSHD
	for _, key := range a.Keys {
		p.Keys = append(p.Keys, fingerprint(key))
	}
	slices.Sort(p.Keys)
	return nil
}

// fingerprint returns the fingerprint of a key, or "no key" for a line that the agent did not write.
func fingerprint(line string) string {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return "no key"
	}
	return ssh.FingerprintSHA256(key)
}

// BlockLogin is the first step of a release. A session that a later step ends must not start again.
func BlockLogin() Step {
	check, verify := absent(func(s State, o protocol.AllocationParams) []string {
		if a, _ := s.account(o.User); len(a.Keys)+len(a.Principals) > 0 {
			return []string{fmt.Sprintf("%d keys and %d principals still open %s", len(a.Keys), len(a.Principals), o.User)}
		}
		return nil
	})
	return Step{Name: "block_login", Within: fair, Code: protocol.StepFailed, Check: check, Do: noLogin, Verify: verify}
}

func noLogin(ctx context.Context, h Host, o protocol.AllocationParams) error {
	return h.BlockLogin(ctx, o.User, o.UID)
}

// otherLogins compares complete sets in both directions. An additional key is as wrong as a missing one, because it
// opens the account to its holder.
func otherLogins(s State, o protocol.AllocationParams) []string {
	a, ok := s.account(o.User)
	if !ok {
		return missingAccount(s, o)
	}
	var found []string
	have, want := keysOf(a.Keys), keysOf(o.PublicKeys)
	if !slices.Equal(have, want) {
		found = append(found, fmt.Sprintf("keys: %d login keys open %s and %d of them are unknown, expected %d", len(have), o.User, len(others(have, want)), len(want)))
	}
	var principals []string
	if o.Principal != "" {
		principals = []string{o.Principal}
	}
	if !slices.Equal(a.Principals, principals) {
		found = append(found, fmt.Sprintf("principals: certificates for %d names open %s and %d of them are unknown, expected %d",
			len(a.Principals), o.User, len(others(a.Principals, principals)), len(principals)))
	}
	if a.Access.LoginFrom != o.LoginFrom {
		found = append(found, fmt.Sprintf("login_from: logins of %s are accepted from %s, expected %s", o.User, cmp.Or(a.Access.LoginFrom, "everywhere"), cmp.Or(o.LoginFrom, "everywhere")))
	}
	if a.Access.Forwarding != o.Forwarding {
		found = append(found, fmt.Sprintf("forwarding: %s has %s, expected %s", o.User, cmp.Or(a.Access.Forwarding, "none"), cmp.Or(o.Forwarding, "none")))
	}
	return found
}

// keysOf returns the lines without their comments, sorted. A line retains its options, because an
// option changes who can log in with the key.
func keysOf(lines []string) (keys []string) {
	for _, line := range lines {
		if key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line)); err == nil && len(options) == 0 {
			line = string(ssh.MarshalAuthorizedKey(key))
		}
		keys = append(keys, line)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func others(have, want []string) []string {
	return slices.DeleteFunc(slices.Clone(have), func(x string) bool { return slices.Contains(want, x) })
}
