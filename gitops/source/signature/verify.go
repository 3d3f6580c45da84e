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

// skew is how far the clock of whoever signs may be ahead of ours.
const skew = 5 * time.Minute

// Verify says whose signatures count.
type Verify struct {
	// Required refuses commits that carry no valid signature. Without it a signature
	// is still looked at where keys are known, and a wrong one refused.
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

// Keys reads whom a source believes, so that a fault in that is found when the
// source is opened and not at its next commit.
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
		return errs.Invalid("verify", "signatures are required, and nobody's would count").Try("list keys in verify.openPGP or verify.ssh")
	}
	return nil
}

// Check finds who signed a commit. A key counts while it is valid now: a commit's
// own date is its author's word, and whoever found an old key would write an old
// date. The key must belong to whom the commit names as its committer; otherwise
// one colleague could sign in another's name.
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

// The words that signatures begin with.
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
