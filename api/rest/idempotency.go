package rest

import (
	"encoding/json"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/platform/identity"
)

// replayOrFail answers a repeated write with what the first one was answered, and
// all other failures as they are. The use-case stores the answer in the transaction
// of its effect and refuses a key that is there; so a fresh key costs no look-up
// (see settled), and whatever a repetition runs into (no slot left, already releasing), the first
// answer still stands.
func (s *Server) replayOrFail(c *gin.Context, err error) {
	ctx, r := of(c)
	if r.key.Key == "" {
		s.fail(c, err)
		return
	}
	switch first, found, lost := s.Identity.Replay(ctx, r.key); {
	case lost != nil:
		s.fail(c, lost)
	case !found:
		s.fail(c, err)
	default:
		again(c.Writer, first)
	}
}

// again writes the first answer as it was.
func again(w http.ResponseWriter, first identity.Reply) {
	h := w.Header()
	h.Set("Idempotency-Replayed", "true")
	for name, value := range map[string]string{"Location": first.Location, "ETag": first.ETag} {
		if value != "" {
			h.Set(name, value)
		}
	}
	if len(first.Body) > 0 {
		h.Set("Content-Type", "application/json")
	}
	w.WriteHeader(first.Status)
	_, _ = w.Write(first.Body) // a client that has left needs no answer
}

// reply is what an answer is kept as. Its form is that of the generated server,
// so that a repetition reads the same bytes.
func reply(status int, body any, location, etag string) identity.Reply {
	r := identity.Reply{Status: status, Location: location, ETag: etag}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil { // our own types have a JSON form
			panic(err)
		}
		r.Body = append(text, '\n')
	}
	return r
}

// keep makes what a change is asked with. The answer is only made where a key
// asks for it.
func keep[T any](r *call, answer func(T) identity.Reply) identity.Change[T] {
	return identity.Change[T]{Caller: r.caller, Key: r.key, Answer: answer}
}
