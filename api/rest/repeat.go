package rest

import (
	"sync"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
)

// maxSettled is how many keys each half of settled holds: some 5 MB in all, and
// minutes of a client that repeats what it has just sent.
const maxSettled = 10_000

// settled remembers which idempotency keys have had their answer from this
// process. A use-case finds a repetition only when its transaction is refused, and
// has done by then all that a first request does. What is forgotten, or was
// answered elsewhere, is found in that way.
type settled struct {
	mu         sync.Mutex
	young, old map[keyName]struct{}
}

type keyName struct {
	principal uuid.UUID
	op        *operation
	key       string
}

func (r *call) keyName() keyName { return keyName{r.key.Principal, r.op, r.key.Key} }

func (s *settled) has(k keyName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, young := s.young[k]
	_, old := s.old[k]
	return young || old
}

// add drops the older half when the younger one is full.
func (s *settled) add(k keyName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.young == nil || len(s.young) >= maxSettled {
		s.young, s.old = map[keyName]struct{}{}, s.young
	}
	s.young[k] = struct{}{}
}

// repeated answers what has been answered here before. Keys that are new to this
// process cost no look-up.
func (s *Server) repeated(c *gin.Context, r *call) bool {
	if r.key.Key == "" || !s.settled.has(r.keyName()) {
		return false
	}
	first, found, err := s.Identity.Replay(c.Request.Context(), r.key)
	switch {
	case err != nil:
		s.fail(c, err)
	case !found: // past its day, or of an operation that keeps no answers
		return false
	default:
		again(c.Writer, first)
		c.Abort()
	}
	return true
}

// settle notes that the key of a change has had its answer.
func (s *Server) settle(c *gin.Context, r *call) {
	if r.key.Key != "" && c.Writer.Status() < 300 {
		s.settled.add(r.keyName())
	}
}
