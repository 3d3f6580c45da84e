// Package signature verifies the OpenPGP and SSH signatures of commits with the keys that a source lists.
package signature

import (
	"errors"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/gitops/source/text"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// skew allows for the difference between the signer's clock and ours.
const skew = 5 * time.Minute

// Verify configures whose signatures are accepted.
type Verify struct {
	// Required rejects commits without a valid signature. Without it, a signature is still checked
	// if keys are configured, and an invalid one is rejected.
	Required bool
	OpenPGP  [][]byte // armoured public keys
	SSH      []string // lines of an allowed_signers file
}

// SignedCommit is the part of a commit that a signature is about.
type SignedCommit struct {
	Hash           string
	Signature      string // empty: the commit is not signed
	Signed         []byte // the object without its signature
	CommitterEmail string
}

// Keys parses the configured keys, so that an invalid key is found when the source is opened and
// not at its next commit.
func (v Verify) Keys() error {
	if _, err := pgpKeys(v.OpenPGP); err != nil {
		return errs.Invalid("verify.openPGP", "the keys cannot be read").Because(err)
	}
	for _, line := range v.SSH {
		if _, err := parseSigner(line); err != nil {
			return errs.Invalid("verify.ssh", "a line cannot be read").Because(err)
		}
	}
	if v.Required && len(v.OpenPGP)+len(v.SSH) == 0 {
		return errs.Invalid("verify", "signatures are required, and no key is configured").Try("list keys in verify.openPGP or verify.ssh")
	}
	return nil
}

// Check finds the signer of a commit. A key must be valid now: the commit's date is chosen by its
// author, and a thief of an expired key would write an old date. The key must belong to the
// committer that the commit names. Otherwise one colleague could sign in another's name.
func (v Verify) Check(c SignedCommit, now time.Time) (string, *desired.Finding) {
	if !v.Required && len(v.OpenPGP)+len(v.SSH) == 0 {
		return "", nil
	}
	if c.Signature == "" {
		if !v.Required {
			return "", nil
		}
		f := signatureFinding(desired.CodeSignatureRequired, c.Hash, "the commit is not signed", "a signature by a key of the source's verify")
		return "", &f
	}
	signer, err := v.signer(c, now)
	if err != nil {
		f := signatureFinding(desired.CodeSignatureInvalid, c.Hash, "the commit's signature does not count: "+text.Printable(err.Error()), "a signature by a key of the source's verify, within its time")
		return "", &f
	}
	return signer, nil
}

// The first lines of signatures.
const (
	PGPArmour = "-----BEGIN PGP SIGNATURE-----"
	SSHArmour = "-----BEGIN SSH SIGNATURE-----"
)

func (v Verify) signer(c SignedCommit, now time.Time) (string, error) {
	switch {
	case strings.HasPrefix(c.Signature, PGPArmour):
		return v.pgpSigner(c, now)
	case strings.HasPrefix(c.Signature, SSHArmour):
		return v.sshSigner(c, now)
	}
	return "", errors.New("it is neither OpenPGP's nor SSH's")
}

func signatureFinding(code, commit, message, expected string) desired.Finding {
	return desired.Finding{Code: code, Path: commit, Line: 1, Column: 1, Message: message, Expected: expected}
}
