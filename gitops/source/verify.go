package source

import (
	"errors"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// skew is how far the clock of whoever signs may be ahead of ours.
const skew = 5 * time.Minute

// keys reads whom a source believes, so that a fault in that is found when the
// source is opened and not at its next commit.
func (v Verify) keys() error {
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

// check finds who signed a commit. A key counts while it is valid now: a commit's
// own date is its author's word, and whoever found an old key would write an old
// date. The key must belong to whom the commit names as its committer; otherwise
// one colleague could sign in another's name.
func (v Verify) check(c commit, now time.Time) (string, *desired.Finding) {
	if !v.Required && len(v.OpenPGP)+len(v.SSH) == 0 {
		return "", nil
	}
	if c.signature == "" {
		if !v.Required {
			return "", nil
		}
		f := finding(desired.CodeSignatureRequired, c.Hash, "the commit is not signed", "a signature by a key of the source's verify")
		return "", &f
	}
	signer, err := v.signer(c, now)
	if err != nil {
		f := finding(desired.CodeSignatureInvalid, c.Hash, "the commit's signature does not count: "+printable(err.Error()), "a signature by a key of the source's verify, within its time")
		return "", &f
	}
	return signer, nil
}

// The words that signatures begin with.
const (
	pgpArmour = "-----BEGIN PGP SIGNATURE-----"
	sshArmour = "-----BEGIN SSH SIGNATURE-----"
)

func (v Verify) signer(c commit, now time.Time) (string, error) {
	switch {
	case strings.HasPrefix(c.signature, pgpArmour):
		return v.pgpSigner(c, now)
	case strings.HasPrefix(c.signature, sshArmour):
		return v.sshSigner(c, now)
	}
	return "", errors.New("it is neither OpenPGP's nor SSH's")
}
