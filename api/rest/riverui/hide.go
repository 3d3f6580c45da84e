package riverui

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

// hideArguments removes the arguments of jobs from all JSON responses.
func hideArguments(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := &buffer{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(b, r)
		body := b.body.Bytes()
		if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
			body = withoutArguments(body)
			w.Header().Del("Content-Length")
		}
		w.WriteHeader(b.status)
		_, _ = w.Write(body)
	})
}

// buffer collects a response, so that its body can be changed before it is sent.
type buffer struct {
	http.ResponseWriter

	status int
	body   bytes.Buffer
}

func (b *buffer) WriteHeader(status int) { b.status = status }

func (b *buffer) Write(p []byte) (int, error) { return b.body.Write(p) }

// withoutArguments replaces every value of the field args by an empty object. A body that is not JSON is
// removed, because nothing is known about its content.
func withoutArguments(body []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber() // ids are larger than what a float represents
	var document any
	if decoder.Decode(&document) != nil {
		return nil
	}
	emptyArguments(document)
	encoded, err := json.Marshal(document)
	if err != nil {
		return nil
	}
	return encoded
}

func emptyArguments(value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			if name == "args" {
				v[name] = map[string]any{}
				continue
			}
			emptyArguments(field)
		}
	case []any:
		for _, element := range v {
			emptyArguments(element)
		}
	}
}
