package response_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/response"
)

// wrapped is a writer of a middleware.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// The writer of net/http can send files, which Gin and the middlewares hide. The headers are written before the bytes.
func TestConnectionIsThatOfNetHTTP(t *testing.T) {
	t.Parallel()
	router := gin.New()
	router.GET("/", func(c *gin.Context) {
		c.Status(http.StatusAccepted)
		c.Header("X-Before", "yes")
		to := response.Connection(c.Writer)
		if _, can := to.(io.ReaderFrom); !can {
			t.Errorf("%T cannot send files", to)
		}
		_, _ = io.WriteString(to, "bytes")
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { router.ServeHTTP(wrapped{w}, r) }))
	defer server.Close()
	r, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || string(body) != "bytes" || r.StatusCode != http.StatusAccepted || r.Header.Get("X-Before") != "yes" {
		t.Errorf("%d %q %v %v", r.StatusCode, body, r.Header, err)
	}
}
