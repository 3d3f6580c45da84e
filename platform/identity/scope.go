package identity

import (
	"context"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// Scope is whose rows the caller's request may touch: their tenant's, or where a
// role on the platform has allowed it, everyone's.
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

// unscoped is for what finds out who calls and for whom: until then a request
// has no scope.
func unscoped(ctx context.Context) context.Context { return pg.WithScope(ctx, pg.Platform) }
