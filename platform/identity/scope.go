package identity

import (
	"context"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// Scope returns the tenants whose rows the request may access: the caller's tenant, or all tenants if a
// platform role has allowed it.
func (c Caller) Scope(platform bool) pg.Scope {
	// One text for both: every request pays for it.
	var text [2 * uuidLength]byte
	tenant, principal := c.Tenant.UUID, c.Principal()
	put(text[:uuidLength], tenant)
	put(text[uuidLength:], principal)
	both := string(text[:])
	s := pg.Scope{Tenant: both[:uuidLength], Principal: both[uuidLength:]}
	switch {
	case platform:
		s.Tenant = pg.Platform.Tenant
	case tenant == uuid.Nil:
		s.Tenant = ""
	}
	if principal == uuid.Nil {
		s.Principal = ""
	}
	return s
}

const uuidLength = 36

func put(text []byte, id uuid.UUID) {
	at := 0
	for i, b := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			text[at] = '-'
			at++
		}
		text[at], text[at+1] = hexDigits[b>>4], hexDigits[b&0x0f]
		at += 2
	}
}

const hexDigits = "0123456789abcdef"

// unscoped is for queries that identify the caller and the tenant. Before them a request has no scope.
func unscoped(ctx context.Context) context.Context { return pg.WithScope(ctx, pg.Platform) }
