package middleware

import (
	"sync"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
)

// maxRepeats limits the keys in each half of settled. Both halves need about 5 MB, and cover the
// minutes in which a client usually repeats a request.
const maxRepeats = 10_000

// repeatCache contains the idempotency keys with a response of this process. A use case finds a repetition
// only when its transaction is rejected, after all the work of a first request. Keys that were
// dropped, or that another process responded to, are found in that way.
type repeatCache struct {
	mu         sync.Mutex
	young, old map[keyName]struct{}
}

type keyName struct {
	principal uuid.UUID
	op        *request.Operation
	key       string
}

func keyNameOf(r *request.Call) keyName { return keyName{r.Key.Principal, r.Op, r.Key.Key} }

func (s *repeatCache) contains(k keyName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, young := s.young[k]
	_, old := s.old[k]
	return young || old
}

// add adds a key. It drops the older half when the younger half is full.
func (s *repeatCache) add(k keyName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.young == nil || len(s.young) >= maxRepeats {
		s.young, s.old = map[keyName]struct{}{}, s.young
	}
	s.young[k] = struct{}{}
}

// repeated responds to a repetition of a request to this process. Keys that are new to this process
// cost no query.
func (s *Chain) repeated(c *gin.Context, r *request.Call) bool {
	if r.Key.Key == "" || !s.repeats.contains(keyNameOf(r)) {
		return false
	}
	first, found, err := s.Identity.Replay(c.Request.Context(), r.Key)
	switch {
	case err != nil:
		s.Fail(c, err)
	case !found: // older than a day, or the operation stores no responses
		return false
	default:
		response.Replay(c.Writer, first)
		c.Abort()
	}
	return true
}

// recordKey records the key of a successful change.
func (s *Chain) recordKey(c *gin.Context, r *request.Call) {
	if r.Key.Key != "" && c.Writer.Status() < 300 {
		s.repeats.add(keyNameOf(r))
	}
}
