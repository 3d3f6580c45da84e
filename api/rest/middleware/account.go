package middleware

import (
	"crypto/hmac"
	"crypto/sha256"
	"net/netip"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Accounts maps the names of accounts to a fixed number of buckets, so that hostile names fill neither memory
// nor the table. The map depends on a secret of the installation: a client cannot choose a name that shares the
// bucket of another one.
type Accounts struct{ Keys *envelope.Ring }

// bucket returns one of 65,536 ids for an account from any address, and one of 65,536 others for an account
// from one of its usual addresses.
func (a Accounts) bucket(account, usual string) (id [16]byte) {
	h := hmac.New(sha256.New, a.Keys.Derive("gpuaas limits of accounts"))
	_, _ = h.Write([]byte(strings.ToLower(strings.TrimSpace(account)) + "\x00" + usual))
	copy(id[:2], h.Sum(nil))
	if usual != "" {
		id[2] = 1
	}
	return id
}

// ChargeAccount counts an attempt to sign in as an account, whether it exists or not. Attempts from an address
// at which the account has signed in lately have a bucket of their own: a stranger who uses up the account's
// bucket slows down strangers only. usual reports whether the address is one of them.
func (s *Chain) ChargeAccount(c *gin.Context, account string, usual bool) error {
	network := ""
	if usual {
		network = netip.AddrFrom16(addressOf(c.Request)).String()
	}
	return s.chargeBucket(c, bucketKey{class: request.ClassAccount, id: s.Accounts.bucket(account, network)}, identity.Caller{})
}
