package signature

import (
	"bytes"
	"crypto"
	"fmt"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// strong are the sums that a signature may be over. SHA-1 is not: two commits can
// be made that have the same one.
var strong = []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512, crypto.SHA3_256, crypto.SHA3_512}

func pgpKeys(armoured [][]byte) (openpgp.EntityList, error) {
	var all openpgp.EntityList
	for _, one := range armoured {
		keys, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(one))
		if err != nil {
			return nil, fmt.Errorf("reading a key: %w", err)
		}
		all = append(all, keys...)
	}
	return all, nil
}

func (v Verify) pgpSigner(c SignedCommit, now time.Time) (string, error) {
	keys, err := pgpKeys(v.OpenPGP)
	if err != nil {
		return "", err
	}
	block, err := armor.Decode(strings.NewReader(c.Signature))
	if err != nil {
		return "", fmt.Errorf("it cannot be read: %w", err)
	}
	config := &packet.Config{Time: func() time.Time { return now.Add(skew) }}
	sig, who, err := openpgp.VerifyDetachedSignatureAndHash(keys, bytes.NewReader(c.Signed), block.Body, strong, config)
	if err != nil {
		return "", err
	}
	if sig.SigType != packet.SigTypeBinary {
		return "", fmt.Errorf("it is of type %d", sig.SigType)
	}
	for _, id := range who.Identities {
		if id.UserId != nil && !id.Revoked(now) && strings.EqualFold(id.UserId.Email, c.CommitterEmail) {
			return c.CommitterEmail, nil
		}
	}
	return "", fmt.Errorf("the key %X is not that of the committer %s", who.PrimaryKey.Fingerprint, c.CommitterEmail)
}
