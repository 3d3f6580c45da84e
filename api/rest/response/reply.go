package response

import (
	"encoding/json"
	"net/http"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Replay writes the stored response of the first request.
func Replay(w http.ResponseWriter, first identity.Reply) {
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

// Reply returns a response in the form in which it is stored. The form is that of the generated server,
// so that a repetition reads the same bytes.
func Reply(status int, body any, location, etag string) identity.Reply {
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

// Change returns the caller and the idempotency key of a change. The response is encoded only for a
// request with a key.
func Change[T any](r *request.Call, answer func(T) identity.Reply) identity.Change[T] {
	return identity.Change[T]{Caller: r.Caller, Key: r.Key, Answer: answer}
}
