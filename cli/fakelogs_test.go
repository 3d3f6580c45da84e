package cli

import (
	"fmt"
	"net/http"
)

// logs sends a line and loses the connection. A client that resumes after that line receives the next one and the end.
func (f *fake) logs(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	switch r.Header.Get("Last-Event-ID") {
	case "":
		_, _ = fmt.Fprintf(w, "retry: 2000\n\nid: 1767603604000000.1\nevent: line\ndata: {\"at\":\"2026-01-05T09:00:04Z\",\"text\":\"first of %s\"}\n\n", r.URL.Query().Get("source"))
	case "1767603604000000.1":
		_, _ = fmt.Fprint(w, "event: dropped\ndata: {\"lines\":3}\n\nid: 1767603605000000.1\nevent: line\ndata: {\"at\":\"2026-01-05T09:00:05Z\",\"text\":\"second\"}\n\n")
		_, _ = fmt.Fprint(w, "event: end\ndata: {\"reason\":\"complete\",\"message\":\"complete\"}\n\n")
	}
}
