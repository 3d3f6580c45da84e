package webhook

import (
	"context"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/envelope/reseal"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// secrets are sealed by the data keys of webhooks: the present secret of an endpoint and the one before it.
var secrets = reseal.Secrets{
	What: "the secrets of webhooks", List: selectOldSecrets, Replace: resealSecrets, Count: countOldSecrets,
	Places: func(row uuid.UUID) []envelope.Place {
		id := ids.From[ids.Webhook](row)
		return []envelope.Place{secretAt(id), previousAt(id)}
	},
}

// Reseal seals the secrets of older data keys with the key id, in transactions of at most limit rows, and returns the
// number of endpoints.
func (s *Service) Reseal(ctx context.Context, id string, limit int) (int, error) {
	return secrets.Again(pg.WithScope(ctx, pg.Platform), s.DB, s.Seal, id, limit)
}

// SealedBefore counts the endpoints with a secret of another data key than id.
func SealedBefore(ctx context.Context, q pg.Queryer, id string) (int, error) {
	return secrets.Before(ctx, q, id)
}
