package identity

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaas/platform/event"
)

// Topic is the hint that a caller may have lost a right.
const Topic = "identity"

// RightsChanged makes every process read rights from the database again. Call it after the commit.
func (s *Service) RightsChanged() {
	s.rights.Add(1)
	if s.Hints != nil {
		s.Hints.Send(Topic)
		s.Hints.Send(event.Topic) // the change may be an event
	}
}

// RightsEpoch is the epoch for a Cache of rights. Read it before the query. RightsChanged increases it,
// so that a right that was read before the change is not used after it.
func (s *Service) RightsEpoch() int64 { return s.rights.Load() }

// Run ends the cached rights whenever another process changes a right, until ctx ends. A lost hint costs
// CachedFor.
func (s *Service) Run(ctx context.Context) error {
	wake, stop := s.Hints.Listen(Topic)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
			s.rights.Add(1)
		}
	}
}

// CachedFor limits the delay of a revocation or a role change by another process whose hint was
// lost. In the same process it has no delay.
const CachedFor = time.Second
