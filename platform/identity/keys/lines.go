package keys

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/cache"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Lines caches AuthorizedKeys for transactions that verify the lines with QueueAuthorizedKeys, so that such a request
// reads them once. The zero value is ready to use.
type Lines struct {
	entries cache.Cache[uuid.UUID, []string]
}

// Lines of more bytes are not cached: they would be most of the memory of a server with 10,000 principals.
const (
	mostCached = 2048
	cachedFor  = time.Hour
)

// Read is AuthorizedKeys. Without fresh its result can be outdated if no key is named.
func (l *Lines) Read(ctx context.Context, q pg.Queryer, c identity.Caller, named []ids.SSHKey, now time.Time, fresh bool) ([]string, error) {
	if len(named) > 0 {
		return AuthorizedKeys(ctx, q, c, named)
	}
	if !fresh {
		if lines, found := l.entries.Get(c.Principal(), 0, now); found {
			return lines, nil
		}
	}
	lines, err := AuthorizedKeys(ctx, q, c, nil)
	if err != nil {
		return nil, err
	}
	size := 0
	for _, line := range lines {
		size += len(line)
	}
	if size > mostCached {
		l.entries.Put(c.Principal(), nil, 0, now) // earlier lines would fail their verification in each request
		return lines, nil
	}
	l.entries.Put(c.Principal(), lines, 0, now.Add(cachedFor))
	return lines, nil
}
