package ledger

import "context"

// SealFrom seals accounts whose tail has at least so many entries.
func (s *Service) SealFrom(ctx context.Context, least int) error { return s.seal(ctx, least) }
